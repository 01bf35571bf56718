package proc

import "container/list"

// lru is a map that forgets what was not used for longest. Not safe for concurrent use.
type lru[K comparable, V any] struct {
	items map[K]*list.Element
	order list.List // front: used last
}

type lruItem[K comparable, V any] struct {
	key   K
	value V
}

func (l *lru[K, V]) get(key K) (value V, ok bool) {
	e := l.items[key]
	if e == nil {
		return value, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruItem[K, V]).value, true
}

// put adds or replaces. Bounding is the caller's: see dropOldest.
func (l *lru[K, V]) put(key K, value V) {
	if e := l.items[key]; e != nil {
		e.Value.(*lruItem[K, V]).value = value
		l.order.MoveToFront(e)
		return
	}
	if l.items == nil {
		l.items = make(map[K]*list.Element)
	}
	l.items[key] = l.order.PushFront(&lruItem[K, V]{key, value})
}

func (l *lru[K, V]) remove(key K) {
	if e := l.items[key]; e != nil {
		l.order.Remove(e)
		delete(l.items, key)
	}
}

func (l *lru[K, V]) dropOldest() (value V, ok bool) {
	e := l.order.Back()
	if e == nil {
		return value, false
	}
	item := l.order.Remove(e).(*lruItem[K, V])
	delete(l.items, item.key)
	return item.value, true
}

// bound drops the oldest until at most n are left.
func (l *lru[K, V]) bound(n int) {
	for len(l.items) > n {
		l.dropOldest()
	}
}
