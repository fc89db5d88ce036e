package lru

import (
	"testing"

	"pgregory.net/rapid"
)

func TestCacheForgetsWhatWasUsedLongestAgo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 4
		c := New[int, int](limit)
		var model []int // keys, used last first; the value of a key is its negative
		touch := func(key int) {
			for i, known := range model {
				if known == key {
					model = append(model[:i:i], model[i+1:]...)
					break
				}
			}
			model = append([]int{key}, model...)
			model = model[:min(len(model), limit)]
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				key := rapid.IntRange(1, 8).Draw(t, "key")
				c.Put(key, -key)
				touch(key)
			},
			"get": func(t *rapid.T) {
				key := rapid.IntRange(1, 8).Draw(t, "key")
				value, found := c.Get(key)
				if found {
					touch(key)
				}
				if found && value != -key {
					t.Fatalf("%d holds %d", key, value)
				}
			},
			"drop": func(t *rapid.T) {
				key := rapid.IntRange(1, 8).Draw(t, "key")
				c.Drop(key)
				for i, known := range model {
					if known == key {
						model = append(model[:i:i], model[i+1:]...)
						break
					}
				}
			},
			"": func(t *rapid.T) {
				if len(c.entries) != len(model) || c.byUse.Len() != len(model) {
					t.Fatalf("holds %d, expected %v", len(c.entries), model)
				}
				for _, key := range model {
					if _, found := c.entries[key]; !found {
						t.Fatalf("%d is missing", key)
					}
				}
			},
		})
	})
}
