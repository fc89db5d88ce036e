// Package lru is a map with a bound: at it, the entry that was used longest ago goes.
//
// Contract. A Cache holds at most its limit of entries; it never blocks. It is not safe for concurrent
// use: its owner holds a lock around every call.
package lru

import "container/list"

// Cache holds at most limit values. Make it with New.
type Cache[K comparable, V any] struct {
	limit   int
	entries map[K]*list.Element
	byUse   *list.List // of slot, last used first
}

type slot[K comparable, V any] struct {
	key   K
	value V
}

// New makes a cache of at most limit entries, at least 1.
func New[K comparable, V any](limit int) *Cache[K, V] {
	return &Cache[K, V]{limit: max(limit, 1), entries: make(map[K]*list.Element), byUse: list.New()}
}

// Get answers the value of key, which counts as used now.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	element, found := c.entries[key]
	if !found {
		var none V
		return none, false
	}
	c.byUse.MoveToFront(element)
	return element.Value.(slot[K, V]).value, true
}

// Put sets the value of key.
func (c *Cache[K, V]) Put(key K, value V) {
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

// Drop forgets key.
func (c *Cache[K, V]) Drop(key K) {
	if element, found := c.entries[key]; found {
		delete(c.entries, key)
		c.byUse.Remove(element)
	}
}

// Len is how many entries there are.
func (c *Cache[K, V]) Len() int { return len(c.entries) }
