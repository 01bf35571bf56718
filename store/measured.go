package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// settingMeasured is the setting that holds what Usage said at the end of a collection.
const settingMeasured = "measured"

// Measured is what the bytes of the store were at some time: to work it out now, all versions have to be read.
type Measured struct {
	At int64 `json:"at"` // unix ns
	Usage
}

// Measured is what was noted last; nil: nothing ever was.
func (s *Store) Measured(ctx context.Context) (*Measured, error) {
	text, err := setting(ctx, s.r, settingMeasured)
	if err != nil || text == "" {
		return nil, s.dbError("read what the store's bytes were", err)
	}
	var m Measured
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("setting %q: %w (%w)", settingMeasured, err, ErrCorrupt)
	}
	return &m, nil
}

// measure notes what the bytes are, if somebody wants to know and it is not known from lately. What a collection reads anyway is about as
// much again, so it is done after one and not when somebody asks.
func (g *collector) measure(ctx context.Context) error {
	if g.o.Measure == 0 {
		return nil
	}
	last, err := g.s.Measured(ctx)
	if err == nil && last != nil && last.At <= g.now && g.now-last.At < int64(g.o.Measure) {
		return nil
	}
	// One that cannot be read is written anew.
	m := Measured{At: g.s.o.Now().UnixNano()}
	if m.Usage, err = g.s.usage(ctx, nil, g.pause); err != nil {
		return err
	}
	text, err := json.Marshal(&m)
	if err != nil {
		return err
	}
	return g.step(ctx, func(ctx context.Context) error { return setSetting(ctx, g.s.w, settingMeasured, string(text)) })
}

// MeasureNow has a collection measure however lately it was done.
const MeasureNow = time.Nanosecond
