package identity

import "container/list"

// cache holds at most limit values; at the bound the one that was used longest ago goes. It is not
// safe for concurrent use.
type cache[K comparable, V any] struct {
	limit   int
	entries map[K]*list.Element
	byUse   *list.List // of slot, last used first
}

type slot[K comparable, V any] struct {
	key   K
	value V
}

func newCache[K comparable, V any](limit int) *cache[K, V] {
	return &cache[K, V]{limit: limit, entries: make(map[K]*list.Element), byUse: list.New()}
}

func (c *cache[K, V]) get(key K) (V, bool) {
	element, found := c.entries[key]
	if !found {
		var none V
		return none, false
	}
	c.byUse.MoveToFront(element)
	return element.Value.(slot[K, V]).value, true
}

func (c *cache[K, V]) put(key K, value V) {
	if element, found := c.entries[key]; found {
		element.Value = slot[K, V]{key, value}
		c.byUse.MoveToFront(element)
		return
	}
	if len(c.entries) >= c.limit {
		oldest := c.byUse.Back()
		delete(c.entries, oldest.Value.(slot[K, V]).key)
		c.byUse.Remove(oldest)
	}
	c.entries[key] = c.byUse.PushFront(slot[K, V]{key, value})
}

func (c *cache[K, V]) drop(key K) {
	if element, found := c.entries[key]; found {
		delete(c.entries, key)
		c.byUse.Remove(element)
	}
}
