package versions

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// aheadFirst versions are looked up at first, then four times as many each time up to aheadVersions, while the texts of those before are read:
// aheadTexts of them before they are needed.
const (
	aheadFirst    = 8
	aheadVersions = 256
	aheadTexts    = 6
	// aheadBytes bounds the texts that are on their way, aheadLeaves what is kept of them for the next.
	aheadBytes  = 32 << 20
	aheadLeaves = 4 << 20
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
	jobs   chan aheadJob              // nil: there are no readers yet
	ended  atomic.Bool                // what is on its way is not needed any more
	group  sync.WaitGroup
	coming map[store.VersionID]chan *aheadBatch // what is looked up already, by its first version
	most   int                                  // versions of the next batch
	cancel []context.CancelFunc                 // of what other goroutines do
}

// aheadJob is a text for one of the readers. They stay, because the first read of a goroutine is slow: its stack has to grow.
type aheadJob struct {
	ctx context.Context
	r   *aheadRead
	v   *store.Version
	buf []byte
}

// aheadBatch is versions that were looked up, and where their texts are.
type aheadBatch struct {
	list []store.Before
	more bool // than list, whose last one begins the next batch
	err  error
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
		coming: map[store.VersionID]chan *aheadBatch{}, most: aheadFirst,
		leaves: blob.NewLeaves(aheadLeaves),
	}
}

// stop returns when nothing is read any more.
func (a *ahead) stop() {
	a.ended.Store(true)
	for _, cancel := range a.cancel {
		cancel()
	}
	if a.jobs != nil {
		close(a.jobs)
	}
	a.group.Wait()
}

// other runs f on another goroutine. stop cancels its context, and waits for it.
func (a *ahead) other(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	a.cancel = append(a.cancel, cancel)
	a.group.Go(func() { f(ctx) })
}

// version finds a version, and those before it on the way. The error wraps ENOENT if there is none.
func (a *ahead) version(ctx context.Context, id store.VersionID) (*aheadVersion, error) {
	if k := a.known[id]; k != nil {
		return k, nil
	}
	b := a.batch(ctx, id)
	if b.err != nil {
		return nil, b.err
	}
	list := b.list
	if b.more {
		list = list[:len(list)-1]
		a.begins(ctx, b.list[len(list)].ID)
	}
	for i, one := range list {
		k := &aheadVersion{v: one.Version, by: one.Command}
		if i+1 < len(list) {
			k.next = list[i+1].Version.ID
		} else if len(list) < len(b.list) {
			k.next = b.list[len(list)].ID
		}
		if a.known[one.Version.ID] == nil {
			a.known[one.Version.ID] = k
		}
	}
	return a.known[id], nil
}

// begins looks the batch that begins with a version up on another goroutine.
func (a *ahead) begins(ctx context.Context, id store.VersionID) {
	if a.coming[id] != nil || a.known[id] != nil {
		return
	}
	c, most := make(chan *aheadBatch, 1), a.most
	a.coming[id], a.most = c, min(4*most, aheadVersions)
	a.other(ctx, func(ctx context.Context) { c <- a.lookup(ctx, id, most) })
}

func (a *ahead) batch(ctx context.Context, id store.VersionID) *aheadBatch {
	if c := a.coming[id]; c != nil {
		delete(a.coming, id)
		return <-c
	}
	return a.lookup(ctx, id, a.most)
}

// lookup uses nothing of a that changes: it runs on any goroutine. The first time it must not, for ends looks around then.
func (a *ahead) lookup(ctx context.Context, id store.VersionID, most int) *aheadBatch {
	list, err := a.st.VersionsBefore(ctx, id, most)
	if err != nil {
		return &aheadBatch{err: err}
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
	return &aheadBatch{list: list, more: len(list) == most}
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
		next := at.next
		if at = a.known[next]; at == nil && len(a.coming[next]) > 0 { // looked up by now
			at, _ = a.version(ctx, next) // an error is met again by who needs it
		}
		if at == nil || at.v.Type() != syscall.S_IFREG || at.v.Size == 0 || at.v.Size > MaxPatch || a.reads[at.v.ID] != nil {
			continue
		}
		// What was read in vain stays: there is little of it.
		if len(a.reads) >= 2*aheadTexts || at.v.Size*int64(len(a.reads)+1) > aheadBytes {
			return
		}
		r := &aheadRead{done: make(chan struct{})}
		a.reads[at.v.ID] = r
		a.readers()
		a.jobs <- aheadJob{ctx, r, at.v, a.buffer(at.v.Size)}
	}
}

// readers starts those who read texts.
func (a *ahead) readers() {
	if a.jobs != nil {
		return
	}
	a.jobs = make(chan aheadJob, 2*aheadTexts+1) // as many as there are reads, with the one that is waited for
	for range max(1, runtime.GOMAXPROCS(0)) {
		a.group.Go(func() {
			for j := range a.jobs {
				if !a.ended.Load() { // else nobody waits for it
					j.r.read(j.ctx, a, j.v, j.buf)
				}
			}
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
