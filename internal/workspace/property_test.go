package workspace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// history is a random history of one space, made by several callers.
type history struct {
	*world
	*rapid.T

	space    string
	callers  []authz.Caller
	channels []string
	threads  []string
	messages []wire.Message
}

// TestOldModelAndEventsAreFreshReads is the promise of ES-9: a client that had a snapshot at any moment and
// applied every event since has what a fresh client reads.
func TestOldModelAndEventsAreFreshReads(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		small := func(o *workspace.Options) { o.MaxPayload = 2500 } // so that some events are reduced
		w := newWorld(t, db.DB, small)
		names := 0
		rapid.Check(t, func(rt *rapid.T) {
			names++
			h := &history{world: w, T: rt, space: w.space().ID}
			h.callers = []authz.Caller{
				w.owner, w.owner,
				w.member("manager"+w.env.NewID()[:13]+string(rune('a'+names%26)), onSpace(h.space), wire.LevelManage),
				w.member("writer"+w.env.NewID()[:13]+string(rune('a'+names%26)), onSpace(h.space), wire.LevelWrite),
			}
			h.check()
		})
	})
}

func (h *history) check() {
	old, head := h.fresh(h.owner, h.space), h.head()
	fromStart, first := emptyModel(), head
	*fromStart = *h.fresh(h.owner, h.space)
	steps := rapid.IntRange(1, 40).Draw(h.T, "steps")
	snapshotAt := rapid.IntRange(0, steps).Draw(h.T, "snapshot")
	for step := range steps {
		if step == snapshotAt {
			old, head = h.fresh(h.owner, h.space), h.head()
		}
		h.step()
	}
	want := h.fresh(h.owner, h.space)
	old.follow(h.world, h.owner, h.space, head)
	same(h.world, want, old)
	fromStart.follow(h.world, h.owner, h.space, first)
	same(h.world, want, fromStart)
}

// expected are refusals that a history runs into.
var expected = []code.Code{code.Forbidden, code.Conflict, code.MessageDeleted, code.VersionConflict}

func (h *history) allowed(err error) bool {
	if err == nil {
		return true
	}
	var refusal *fault.Error
	if !errors.As(err, &refusal) {
		require.NoError(h.world, err)
	}
	require.Contains(h.world, expected, refusal.Code, "%v", err)
	return false
}

func (h *history) step() {
	by := rapid.SampledFrom(h.callers).Draw(h.T, "by")
	kinds := []func(authz.Caller){h.structure, h.administer}
	if len(h.channels) > 0 {
		kinds = append(kinds, h.newThread, h.channelChange)
	}
	if len(h.threads) > 0 {
		kinds = append(kinds, h.post, h.post, h.post, h.threadChange)
	}
	if len(h.messages) > 0 {
		kinds = append(kinds, h.messageChange, h.messageChange, h.messageChange, h.messageChange)
	}
	rapid.SampledFrom(kinds).Draw(h.T, "kind")(by)
}

func (h *history) structure(by authz.Caller) {
	kind := rapid.SampledFrom([]wire.ChannelKind{wire.ChannelText, wire.ChannelForum}).Draw(h.T, "channel kind")
	channel, err := h.CreateChannel(h.world.Context(), by, wire.NewChannel{SpaceID: h.space, Kind: kind, Name: "c"})
	if !h.allowed(err) {
		return
	}
	h.channels = append(h.channels, channel.ID)
	if channel.MainThreadID != "" {
		h.threads = append(h.threads, channel.MainThreadID)
	}
}

func (h *history) administer(by authz.Caller) {
	ctx := h.world.Context()
	var err error
	switch rapid.IntRange(0, 3).Draw(h.T, "administer") {
	case 0:
		_, err = h.PatchSpace(ctx, by, h.space, nil, wire.PatchSpace{Name: text(rapid.StringMatching(`[a-z]{1,3}`).Draw(h.T, "name"))})
	case 1:
		_, err = h.ArchiveSpace(ctx, by, h.space, nil)
	default:
		_, err = h.UnarchiveSpace(ctx, by, h.space, nil)
	}
	h.allowed(err)
}

func (h *history) channelChange(by authz.Caller) {
	ctx := h.world.Context()
	id := rapid.SampledFrom(h.channels).Draw(h.T, "channel")
	var err error
	switch rapid.IntRange(0, 5).Draw(h.T, "channel change") {
	case 0:
		_, err = h.PatchChannel(ctx, by, id, nil, wire.PatchChannel{Topic: text(rapid.StringMatching(`[a-z]{0,2}`).Draw(h.T, "topic"))})
	case 1:
		_, err = h.PatchChannel(ctx, by, id, nil, wire.PatchChannel{Clear: []string{"topic"}})
	case 2:
		readOnly := rapid.Bool().Draw(h.T, "read only")
		_, err = h.PatchChannel(ctx, by, id, nil, wire.PatchChannel{ReadOnly: &readOnly})
	case 3:
		_, err = h.PutChannelSettings(ctx, by, id, nil, wire.PutSettings{Prompt: "be kind"})
	case 4:
		_, err = h.ArchiveChannel(ctx, by, id, nil)
	default:
		_, err = h.UnarchiveChannel(ctx, by, id, nil)
	}
	h.allowed(err)
}

func (h *history) newThread(by authz.Caller) {
	in := wire.NewThread{Title: "t", ClientMsgID: h.env.NewID(), ContentMD: h.content()}
	started, _, err := h.StartThread(h.world.Context(), by, rapid.SampledFrom(h.channels).Draw(h.T, "channel"), in)
	if h.allowed(err) {
		h.threads = append(h.threads, started.Thread.ID)
		h.messages = append(h.messages, started.Message)
	}
}

func (h *history) content() string {
	return rapid.SampledFrom([]string{"hello", "hello @owner", strings.Repeat("long ", 900), strings.Repeat("@owner äöü ", 300)}).Draw(h.T, "content")
}

func (h *history) post(by authz.Caller) {
	in := h.message(h.content())
	threadID := rapid.SampledFrom(h.threads).Draw(h.T, "thread")
	for _, m := range h.messages {
		if m.ThreadID == threadID && rapid.Bool().Draw(h.T, "reply") {
			in.ReplyToID = m.ID
		}
	}
	if rapid.IntRange(0, 4).Draw(h.T, "files") == 0 {
		in.FileIDs = []string{h.file(by), h.file(by)}
	}
	message, _, err := h.CreateMessage(h.world.Context(), by, threadID, in)
	if h.allowed(err) {
		h.messages = append(h.messages, message)
	}
}

func (h *history) threadChange(by authz.Caller) {
	ctx := h.world.Context()
	id := rapid.SampledFrom(h.threads).Draw(h.T, "thread")
	var err error
	switch rapid.IntRange(0, 4).Draw(h.T, "thread change") {
	case 0:
		_, err = h.PatchThread(ctx, by, id, nil, wire.PatchThread{Title: text(rapid.StringMatching(`[a-z]{1,2}`).Draw(h.T, "title"))})
	case 1:
		_, err = h.PatchThread(ctx, by, id, nil, wire.PatchThread{Clear: []string{"title"}})
	case 2:
		_, err = h.CloseThread(ctx, by, id, nil)
	case 3:
		_, err = h.ReopenThread(ctx, by, id, nil)
	default:
		_, err = h.MoveThread(ctx, by, id, nil, wire.MoveThread{ChannelID: rapid.SampledFrom(h.channels).Draw(h.T, "target")})
	}
	h.allowed(err)
}

func (h *history) messageChange(by authz.Caller) {
	ctx := h.world.Context()
	m := rapid.SampledFrom(h.messages).Draw(h.T, "message")
	emoji := rapid.SampledFrom([]string{"👍", "🎉", "<3"}).Draw(h.T, "emoji")
	whatever := place.AnyVersion
	var err error
	switch rapid.IntRange(0, 7).Draw(h.T, "message change") {
	case 0, 1:
		_, err = h.EditMessage(ctx, by, m.ID, &whatever, wire.EditMessage{ContentMD: h.content()})
	case 2:
		err = h.DeleteMessage(ctx, by, m.ID)
	case 3:
		err = h.Pin(ctx, by, m.ThreadID, m.ID)
	case 4:
		err = h.Unpin(ctx, by, m.ThreadID, m.ID)
	case 5, 6:
		err = h.AddReaction(ctx, by, m.ID, emoji)
	default:
		err = h.RemoveReaction(ctx, by, m.ID, emoji)
	}
	h.allowed(err)
}
