package blob

import "sync"

const cacheShards = 8

// cache keeps decoded, verified blobs, the least recently used one leaving first. Safe for any number of goroutines.
// Its slices are shared: nobody writes to them.
type cache struct {
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	mu    sync.Mutex
	limit int64
	size  int64                // guarded by mu
	items map[Ref]*cacheItem   // guarded by mu
	root  cacheItem            // guarded by mu; ring: root.next is the most recently used
	hits  int64                // guarded by mu; blobs that were asked for and were there
	miss  int64                // guarded by mu
	_     [64 - 8 - 8 - 8]byte // keeps the next shard's lock off this one's line
}

type cacheItem struct {
	ref        Ref
	data       []byte
	level      int // that of the node that data was found to be, 0: not known to be one
	next, prev *cacheItem
}

// itemOverhead is what an entry costs beside its bytes.
const itemOverhead = 128

func newCache(limit int64) *cache {
	c := &cache{}
	for i := range c.shards {
		s := &c.shards[i]
		s.limit, s.items = limit/cacheShards, map[Ref]*cacheItem{}
		s.root.next, s.root.prev = &s.root, &s.root
	}
	return c
}

func (c *cache) shard(ref Ref) *cacheShard { return &c.shards[ref[0]%cacheShards] }

// get returns the blob, or nil.
func (c *cache) get(ref Ref) []byte {
	data, _ := c.getLevel(ref)
	return data
}

// getLevel returns the blob, or nil, and what setLevel was told about it, or 0.
func (c *cache) getLevel(ref Ref) ([]byte, int) {
	s := c.shard(ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[ref]
	if it == nil {
		s.miss++
		return nil, 0
	}
	s.hits++
	if s.root.next != it {
		s.unlink(it)
		s.push(it)
	}
	return it.data, it.level
}

// setLevel notes that the blob passed parseNode for this level, and with the size that it names itself.
func (c *cache) setLevel(ref Ref, level int) {
	s := c.shard(ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[ref]; it != nil {
		it.level = level
	}
}

// put takes over data.
func (c *cache) put(ref Ref, data []byte) {
	s := c.shard(ref)
	cost := int64(cap(data)) + itemOverhead
	if cost > s.limit {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[ref] != nil {
		return
	}
	it := &cacheItem{ref: ref, data: data}
	s.items[ref] = it
	s.push(it)
	for s.size += cost; s.size > s.limit; {
		old := s.root.prev
		s.unlink(old)
		delete(s.items, old.ref)
		s.size -= int64(cap(old.data)) + itemOverhead
	}
}

// CacheStats is what the cache of decoded blobs has and did.
type CacheStats struct {
	Bytes, Limit int64
	Blobs        int64
	Hits, Misses int64 // of all times that it was asked; a read that finds its blob on the disk has asked once or more
}

// CacheStats is how the cache is now.
func (s *Store) CacheStats() CacheStats {
	var out CacheStats
	for i := range s.cache.shards {
		sh := &s.cache.shards[i]
		sh.mu.Lock()
		out.Bytes += sh.size
		out.Limit += sh.limit
		out.Blobs += int64(len(sh.items))
		out.Hits += sh.hits
		out.Misses += sh.miss
		sh.mu.Unlock()
	}
	return out
}

// drop forgets everything. Tests use it to read from the disk again.
func (c *cache) drop() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		clear(s.items)
		s.size, s.root.next, s.root.prev = 0, &s.root, &s.root
		s.mu.Unlock()
	}
}

// forget removes blobs.
func (c *cache) forget(refs []Ref) {
	for _, ref := range refs {
		s := c.shard(ref)
		s.mu.Lock()
		if it := s.items[ref]; it != nil {
			s.unlink(it)
			delete(s.items, ref)
			s.size -= int64(cap(it.data)) + itemOverhead
		}
		s.mu.Unlock()
	}
}

func (s *cacheShard) unlink(it *cacheItem) {
	it.prev.next, it.next.prev = it.next, it.prev
}

func (s *cacheShard) push(it *cacheItem) {
	it.next, it.prev = s.root.next, &s.root
	it.next.prev, s.root.next = it, it
}
