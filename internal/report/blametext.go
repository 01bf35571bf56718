package report

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"wsfs/internal/ui"
	"wsfs/versions"
)

// BlameText is a blame as Blame prints it to a file or a pipe, with what has to be so for another process to print the same.
func BlameText(b *versions.Blamed) (text []byte, zones Zones, err error) {
	var buf bytes.Buffer
	out := &ui.Out{W: &buf}
	if _, err := Blame(out, b, false); err != nil {
		return nil, nil, err
	}
	if err := out.Flush(); err != nil {
		return nil, nil, err
	}
	return buf.Bytes(), zonesOf(b, time.Local), nil
}

// Zones says how far from UTC local time was at times that were printed. Between two that follow each other within zoneStep and
// agree, it was the same: no zone goes forth and back so fast.
type Zones []Zone

// Zone is the offset of local time at a time.
type Zone struct{ At, Offset int64 } // seconds

const zoneStep = 14 * 24 * 3600

func zonesOf(b *versions.Blamed, loc *time.Location) Zones {
	var at []int64
	var last *versions.LineOwner
	for _, o := range b.Owners {
		if o != last && o.At != 0 {
			at = append(at, time.Unix(0, o.At).Unix())
		}
		last = o
	}
	slices.Sort(at)
	at = slices.Compact(at)
	var list Zones
	for i, t := range at {
		z := Zone{t, offsetAt(t, loc)}
		if n := len(list); n > 0 && i+1 < len(at) && list[n-1].Offset == z.Offset && at[i+1]-list[n-1].At < zoneStep && offsetAt(at[i+1], loc) == z.Offset {
			continue // between two that say it
		}
		list = append(list, z)
	}
	return list
}

func offsetAt(t int64, loc *time.Location) int64 {
	_, offset := time.Unix(t, 0).In(loc).Zone()
	return int64(offset)
}

// Local reports whether local time is the same here.
func (z Zones) Local() bool { return z.in(time.Local) }

func (z Zones) in(loc *time.Location) bool {
	return !slices.ContainsFunc(z, func(z Zone) bool { return offsetAt(z.At, loc) != z.Offset })
}

// String is z as ParseZones reads it.
func (z Zones) String() string {
	var b strings.Builder
	for i, one := range z {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatInt(one.At, 10) + "/" + strconv.FormatInt(one.Offset, 10))
	}
	return b.String()
}

// ParseZones reads what String wrote.
func ParseZones(s string) (Zones, error) {
	var list Zones
	for f := range strings.FieldsSeq(s) {
		at, offset, _ := strings.Cut(f, "/")
		a, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, err
		}
		o, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, Zone{a, o})
	}
	return list, nil
}
