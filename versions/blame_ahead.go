package versions

import (
	"context"
	"runtime"
	"sync"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// aheadVersions is how many versions are looked up at once, aheadTexts how many texts are read before they are needed.
const (
	aheadVersions = 256
	aheadTexts    = 6
	// aheadBytes bounds the texts that are on their way, aheadLeaves what is kept of them for the next.
	aheadBytes  = 32 << 20
	aheadLeaves = 8 << 20
)

// ahead looks up versions in the order in which a blame mostly comes to them, many at a time, and reads their texts on
// other goroutines. It is used by one goroutine; stop must be called.
type ahead struct {
	st     *store.Store
	known  map[store.VersionID]*aheadVersion
	reads  map[store.VersionID]*aheadRead
	spare  [][]byte
	leaves *blob.Leaves               // that texts share
	ends   func(store.VersionID) bool // no text behind this version will be needed
	tokens chan struct{}
	group  sync.WaitGroup
}

type aheadVersion struct {
	v    *store.Version
	by   store.CommandID
	next store.VersionID // the one before, 0 at the end of the line
}

// aheadRead is a text on its way; done is closed when it is there.
type aheadRead struct {
	done chan struct{}
	text []byte
	err  error
}

func newAhead(st *store.Store, ends func(store.VersionID) bool) *ahead {
	return &ahead{
		st: st, known: map[store.VersionID]*aheadVersion{}, reads: map[store.VersionID]*aheadRead{}, ends: ends,
		leaves: blob.NewLeaves(aheadLeaves), tokens: make(chan struct{}, max(1, runtime.GOMAXPROCS(0))),
	}
}

// stop returns when nothing is read any more.
func (a *ahead) stop() { a.group.Wait() }

// version finds a version, and those before it on the way. The error wraps ENOENT if there is none.
func (a *ahead) version(ctx context.Context, id store.VersionID) (*aheadVersion, error) {
	if k := a.known[id]; k != nil {
		return k, nil
	}
	list, err := a.st.VersionsBefore(ctx, id, aheadVersions)
	if err != nil {
		return nil, err
	}
	var texts []blob.Content
	for _, b := range list {
		if v := b.Version; v.Type() == syscall.S_IFREG && v.Size > 0 && !a.ends(v.ID) {
			texts = append(texts, blob.Content{Ref: v.Content, Size: v.Size})
		}
	}
	if len(texts) > 2 {
		a.leaves.Expect(ctx, a.st.Blobs(), texts)
	}
	for i, b := range list {
		k := &aheadVersion{v: b.Version, by: b.Command}
		if i+1 < len(list) {
			k.next = list[i+1].Version.ID
		}
		if a.known[b.Version.ID] == nil {
			a.known[b.Version.ID] = k
		}
	}
	return a.known[id], nil
}

// text is the text of v, which the caller owns until it gives it back to free. Those that are likely to be asked for next are on their
// way when it returns.
func (a *ahead) text(ctx context.Context, v *store.Version) ([]byte, error) {
	r := a.reads[v.ID]
	delete(a.reads, v.ID)
	if r == nil {
		r = &aheadRead{done: make(chan struct{})}
		buf := a.buffer(v.Size)
		a.begin(ctx, v)
		r.read(ctx, a, v, buf)
		return r.text, r.err
	}
	a.begin(ctx, v)
	<-r.done
	return r.text, r.err
}

// begin starts reading the texts before v.
func (a *ahead) begin(ctx context.Context, v *store.Version) {
	at := a.known[v.ID]
	for range aheadTexts {
		if at == nil || a.ends(at.v.ID) {
			return
		}
		if at = a.known[at.next]; at == nil || at.v.Type() != syscall.S_IFREG || at.v.Size == 0 || a.reads[at.v.ID] != nil {
			continue
		}
		// What was read in vain stays: there is little of it.
		if len(a.reads) >= 2*aheadTexts || at.v.Size*int64(len(a.reads)+1) > aheadBytes {
			return
		}
		r := &aheadRead{done: make(chan struct{})}
		a.reads[at.v.ID] = r
		v, buf := at.v, a.buffer(at.v.Size)
		a.group.Go(func() {
			a.tokens <- struct{}{}
			r.read(ctx, a, v, buf)
			<-a.tokens
		})
	}
}

func (r *aheadRead) read(ctx context.Context, a *ahead, v *store.Version, buf []byte) {
	r.text, r.err = readWith(ctx, a.st, v, buf, a.leaves)
	close(r.done)
}

func (a *ahead) buffer(size int64) []byte {
	for i := len(a.spare) - 1; i >= 0; i-- {
		if b := a.spare[i]; int64(cap(b)) >= size {
			a.spare[i] = a.spare[len(a.spare)-1]
			a.spare = a.spare[:len(a.spare)-1]
			return b[:size]
		}
	}
	return make([]byte, size, size+size/8) // the next one may be a little longer
}

func (a *ahead) free(text []byte) {
	if len(a.spare) < 2*aheadTexts {
		a.spare = append(a.spare, text)
	}
}
