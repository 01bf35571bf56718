package report

import (
	"testing"
	"time"
	_ "time/tzdata" // whatever this machine knows

	"wsfs/versions"
)

// Where local time differs at any time that is printed, the zones differ.
func TestZones(t *testing.T) {
	load := func(name string) *time.Location {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return loc
	}
	list := []*time.Location{
		time.UTC, load("Europe/Berlin"), load("Europe/London"), load("America/New_York"), load("America/Phoenix"), load("America/Denver"),
		load("Asia/Kolkata"), load("Africa/Casablanca"), time.FixedZone("", 3600),
	}
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []time.Duration{time.Hour, 31 * time.Hour, 9 * 24 * time.Hour, 20 * 24 * time.Hour, 100 * 24 * time.Hour} {
		for n := 1; n < 200; n += 23 {
			b := &versions.Blamed{Owners: []*versions.LineOwner{{}}}
			for i := range n {
				b.Owners = append(b.Owners, &versions.LineOwner{At: start.Add(time.Duration(i*7919%n) * step).UnixNano()})
			}
			for _, here := range list {
				z, err := ParseZones(zonesOf(b, here).String())
				if err != nil {
					t.Fatal(err)
				}
				for _, there := range list {
					same := true
					for _, o := range b.Owners[1:] {
						at := time.Unix(0, o.At)
						same = same && at.In(here).Format(time.RFC3339) == at.In(there).Format(time.RFC3339)
					}
					if got := z.in(there); got != same {
						t.Errorf("%d times, each %v: %v and %v: the same %v, want %v", n, step, here, there, got, same)
					}
				}
			}
		}
	}
	if _, err := ParseZones("1/x"); err == nil {
		t.Error("not refused")
	}
}
