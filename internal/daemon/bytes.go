package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"wsfs/internal/ui"
	"wsfs/store"
)

// Bytes says what the bytes of the store were at some time.
type Bytes struct {
	At string `json:"at"`
	store.Usage
}

// BytesOf is what the store knows of its bytes; nil if nothing. It reads one row.
func BytesOf(ctx context.Context, st *store.Store) (*Bytes, error) {
	m, err := st.Measured(ctx)
	if m == nil || err != nil {
		return nil, err
	}
	return &Bytes{time.Unix(0, m.At).UTC().Format(time.RFC3339), m.Usage}, nil
}

// Text is that for people.
func (b *Bytes) Text() string {
	at, _ := time.Parse(time.RFC3339, b.At)
	parts := make([]string, 0, len(b.Classes))
	for _, class := range store.ClassNames() {
		if n := b.Classes[class]; n > 0 {
			parts = append(parts, ui.Bytes(n)+" "+string(class))
		}
	}
	of := ""
	if len(parts) > 0 {
		of = " (" + strings.Join(parts, ", ") + ")"
	}
	return fmt.Sprintf("%s when it was last collected, %s: %s of now, %s of the past%s, %s of dropped workspaces", ui.Bytes(b.Total),
		at.Local().Format(time.DateTime), ui.Bytes(b.Live), ui.Bytes(b.History), of, ui.Bytes(b.Dropped))
}
