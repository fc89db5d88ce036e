package conn

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestQueueModel plays any operations on a queue against a plain list of what waits.
func TestQueueModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &queueModel{joint: make([]byte, 64)}
		t.Repeat(map[string]func(*rapid.T){
			"push":      m.push,
			"supersede": m.supersede,
			"urgent":    m.urgent,
			"drop":      func(*rapid.T) { m.q.drop(); m.remove(func(entry) bool { return true }) },
			"next":      m.next,
			"advance":   m.advance,
			"":          m.check,
		})
	})
}

type queueModel struct {
	q       queue
	joint   []byte
	claimed []byte
	waiting []entry
	begun   int // bytes of waiting that are written
	serial  int
}

func (m *queueModel) entry(t *rapid.T, key string) entry {
	m.serial++
	data := fmt.Appendf(nil, "%d:", m.serial)
	data = append(data, bytes.Repeat([]byte("."), rapid.IntRange(0, 90).Draw(t, "size"))...)
	return entry{data: data, frames: rapid.IntRange(0, 3).Draw(t, "frames"), key: key}
}

func (m *queueModel) push(t *rapid.T) {
	e := m.entry(t, rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"))
	if e.key != "" {
		m.q.supersede(e.key)
		m.remove(func(old entry) bool { return old.key == e.key })
	}
	m.q.push(e, 0)
	m.waiting = append(m.waiting, e)
}

func (m *queueModel) supersede(t *rapid.T) {
	m.q.supersede("a")
	m.remove(func(e entry) bool { return e.key == "a" })
}

func (m *queueModel) urgent(t *rapid.T) {
	e := m.entry(t, pongKey)
	m.q.urgent(e)
	m.remove(func(old entry) bool { return old.key == pongKey })
	m.waiting = slices.Insert(m.waiting, m.fixed(), e)
}

// fixed is how many entries are begun or claimed.
func (m *queueModel) fixed() int {
	n, end := 0, m.begun+len(m.claimed)
	for i := 0; end > 0 && i < len(m.waiting); i++ {
		end -= len(m.waiting[i].data)
		n++
	}
	return n
}

func (m *queueModel) remove(which func(entry) bool) {
	fixed := m.fixed()
	rest := slices.DeleteFunc(slices.Clone(m.waiting[fixed:]), which)
	m.waiting = append(slices.Clone(m.waiting[:fixed]), rest...)
}

func (m *queueModel) next(t *rapid.T) {
	if m.claimed != nil {
		return // one write at a time
	}
	m.claimed = slices.Clone(m.q.next(m.joint))
	require.Equal(t, len(m.waiting) == 0, len(m.claimed) == 0)
	require.True(t, bytes.HasPrefix(m.bytes(), m.claimed))
	if len(m.waiting) > 1 {
		require.GreaterOrEqual(t, len(m.claimed), min(len(m.joint)/2, len(m.bytes())), "waiting frames go together")
	}
}

func (m *queueModel) advance(t *rapid.T) {
	if m.claimed == nil {
		return
	}
	n := rapid.IntRange(0, len(m.claimed)).Draw(t, "written")
	frames := 0
	m.begun += n
	for len(m.waiting) > 0 && m.begun >= len(m.waiting[0].data) {
		m.begun -= len(m.waiting[0].data)
		frames += m.waiting[0].frames
		m.waiting = m.waiting[1:]
	}
	m.claimed = nil
	require.Equal(t, frames, m.q.advance(n))
}

func (m *queueModel) bytes() []byte {
	var all []byte
	for _, e := range m.waiting {
		all = append(all, e.data...)
	}
	return all[min(m.begun, len(all)):]
}

func (m *queueModel) check(t *rapid.T) {
	frames := 0
	for _, e := range m.waiting {
		frames += e.frames
	}
	require.Equal(t, frames, m.q.frames)
	require.Equal(t, len(m.bytes()), m.q.bytes)
	require.Len(t, m.q.entries, len(m.waiting))
	require.Equal(t, len(m.waiting) == 0, m.q.empty())
	if m.q.empty() {
		require.Nil(t, m.q.entries, "an idle stream holds no buffer")
	}
}

func TestQueueAdmits(t *testing.T) {
	t.Parallel()
	limits := Limits{QueueFrames: 4, QueueBytes: 100}
	cases := []struct {
		name    string
		waiting []int // sizes of blocks of one frame
		frames  int
		size    int
		want    bool
	}{
		{"nothing waits", nil, 1, 1, true},
		{"nothing waits, a huge frame", nil, 1, 1 << 30, true},
		{"nothing waits, more frames than the bound", nil, 9, 1, true},
		{"up to the bound in frames", []int{1, 1, 1}, 1, 1, true},
		{"over the bound in frames", []int{1, 1, 1}, 2, 1, false},
		{"behind a huge frame", []int{1 << 20}, 1, 100, true},
		{"behind a huge frame and the bound", []int{1 << 20, 60}, 1, 41, false},
		{"a huge frame behind the bound", []int{50, 50}, 1, 1 << 20, true},
		{"two huge frames", []int{1 << 20}, 1, 1 << 20, false},
	}
	for _, c := range cases {
		t.Run("SS-STR-7 "+c.name, func(t *testing.T) {
			t.Parallel()
			var q queue
			for _, size := range c.waiting {
				q.push(entry{data: make([]byte, size), frames: 1}, 0)
			}
			require.Equal(t, c.want, q.admits(c.frames, c.size, limits))
		})
	}
}
