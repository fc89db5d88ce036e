package workspace_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func number(r *http.Request, name string, otherwise int64) int64 {
	if text := r.URL.Query().Get(name); text != "" {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	return otherwise
}

// paged answers a page of a list.
func paged[T any](r *http.Request, all []T) (int, any) {
	from := number(r, "cursor", 0)
	to := min(from+number(r, "limit", 50), int64(len(all)))
	page := wire.Page[T]{Items: all[from:to]}
	if page.Items == nil {
		page.Items = []T{}
	}
	if to < int64(len(all)) {
		page.NextCursor = strconv.FormatInt(to, 10)
	}
	return 200, page
}

func parsed[T any](body []byte) T {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		panic(err)
	}
	return v
}

// route answers one authenticated request; the lock is held.
func (f *fake) route(_ http.Header, r *http.Request, body []byte) (int, any) {
	at := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	switch at[0] {
	case "sync":
		return 200, f.snapshot()
	case "me":
		return 200, wire.Me{Principal: f.me, Access: f.access()}
	case "auth":
		f.keys.Lock()
		f.keys.family = false
		f.keys.Unlock()
		return 204, nil
	case "devices":
		f.keys.Lock()
		defer f.keys.Unlock()
		state := wire.DeviceActive
		if f.keys.pending {
			state = wire.DevicePending
		}
		return 200, wire.Device{ID: at[1], State: state}
	case "threads":
		return f.threadRoute(r, at, body)
	case "channels":
		return f.channelRoute(r, at, body)
	case "messages":
		return f.messageRoute(r, at, body)
	default:
		return f.personalRoute(r, at, body)
	}
}

func (f *fake) threadRoute(r *http.Request, at []string, body []byte) (int, any) {
	t := f.threads[at[1]]
	if t == nil || !f.readable(t.ID) {
		return problem(404, code.NotFound)
	}
	if len(at) == 2 {
		return 200, *t
	}
	switch r.Method + " " + at[2] {
	case "GET messages":
		return 200, f.part(t.ID, number(r, "before", 0), number(r, "after", -1), int(number(r, "limit", 50)))
	case "POST messages":
		return f.send(t, parsed[wire.NewMessage](body))
	case "GET pins":
		var pinned []wire.Message
		for _, m := range f.msgs[t.ID] {
			if m.Pinned {
				pinned = append(pinned, f.shown(m))
			}
		}
		return paged(r, pinned)
	case "PUT pins", "DELETE pins":
		f.pin(f.byID[at[3]], r.Method == http.MethodPut)
		return 204, nil
	case "POST done", "POST reopen":
		kind, state := workspace.TypeThreadClosed, wire.ThreadDone
		if at[2] == "reopen" {
			kind, state = workspace.TypeThreadReopened, wire.ThreadOpen
		}
		t.State, t.Version = state, t.Version+1
		f.threadEvent(kind, t)
		return 200, *t
	default:
		return problem(404, code.NotFound)
	}
}

func (f *fake) send(t *wire.Thread, said wire.NewMessage) (int, any) {
	if f.level(t.ChannelID).Rank() < wire.LevelWrite.Rank() {
		return problem(403, code.Forbidden)
	}
	if known := f.byKey[said.ClientMsgID]; known != nil {
		if known.ContentMD != said.ContentMD && known.DeletedAt == nil {
			return problem(422, code.IdempotencyKeyReuse)
		}
		return 200, f.shown(known)
	}
	if said.ContentMD == "" {
		return problem(422, code.ValidationFailed)
	}
	return 201, f.shown(f.postAs(t.ID, f.me, said.ContentMD, said.ClientMsgID))
}

func (f *fake) channelRoute(r *http.Request, at []string, body []byte) (int, any) {
	if f.level(at[1]) == "" {
		return problem(404, code.NotFound)
	}
	if len(at) < 3 || at[2] != "threads" {
		return problem(404, code.NotFound)
	}
	if r.Method == http.MethodPost {
		said := parsed[wire.NewThread](body)
		if known := f.byKey[said.ClientMsgID]; known != nil {
			return 200, wire.ThreadStarted{Thread: *f.threads[known.ThreadID], Message: f.shown(known)}
		}
		t := &wire.Thread{
			ID: workspace.NewID(), ChannelID: at[1], Kind: wire.ThreadThread, Title: said.Title, State: wire.ThreadOpen, LastActivityAt: f.now(),
			CreatedAt: f.clock, Version: 1,
		}
		f.threads[t.ID] = t
		f.threadEvent(workspace.TypeThreadCreated, t)
		m := f.postAs(t.ID, f.me, said.ContentMD, said.ClientMsgID)
		return 201, wire.ThreadStarted{Thread: *t, Message: f.shown(m)}
	}
	var all []wire.Thread
	for _, t := range f.threads {
		if t.ChannelID == at[1] {
			all = append(all, *t)
		}
	}
	slices.SortFunc(all, func(a, b wire.Thread) int {
		return cmp.Or(b.LastActivityAt.Compare(a.LastActivityAt), cmp.Compare(a.ID, b.ID))
	})
	return paged(r, all)
}

func (f *fake) messageRoute(r *http.Request, at []string, body []byte) (int, any) {
	m := f.byID[at[1]]
	if m == nil || !f.readable(m.ThreadID) {
		return problem(404, code.NotFound)
	}
	if len(at) == 4 && at[2] == "reactions" {
		f.react(m, f.me.ID, at[3], r.Method == http.MethodPut)
		return 204, nil
	}
	switch r.Method {
	case http.MethodPatch:
		version, _ := strconv.ParseInt(strings.Trim(r.Header.Get("If-Match"), `"`), 10, 64)
		switch {
		case version == 0:
			return problem(428, code.PreconditionRequired)
		case m.DeletedAt != nil:
			return problem(410, code.MessageDeleted)
		case version != m.Version:
			return 412, wire.Problem{Code: string(code.VersionConflict), Current: raw(f.shown(m))}
		}
		f.edit(m, parsed[wire.EditMessage](body).ContentMD)
	case http.MethodDelete:
		if m.DeletedAt == nil {
			f.remove(m)
		}
		return 204, nil
	}
	return 200, f.shown(m)
}

func (f *fake) personalRoute(r *http.Request, at []string, body []byte) (int, any) {
	writes := r.Method != http.MethodGet
	switch at[0] {
	case "drafts":
		if writes {
			said := parsed[wire.PutDraft](body)
			before := int64(0)
			if kept := f.drafts[at[1]]; kept != nil {
				before = kept.Version
			}
			d := f.putDraft(at[1], said.ContentMD, f.device)
			d.OverwroteNewer = said.BaseVersion != nil && *said.BaseVersion < before
			return 200, d
		}
		var all []wire.Draft
		for _, id := range slices.Sorted(maps.Keys(f.drafts)) {
			if f.readable(id) {
				all = append(all, *f.drafts[id])
			}
		}
		return paged(r, all)
	case "read-states":
		said := parsed[wire.PutReadState](body)
		return 200, f.read(at[1], min(said.LastReadSeq, f.threads[at[1]].LastMessageSeq), f.device)
	case "settings":
		var all []wire.Setting
		for _, key := range slices.Sorted(maps.Keys(f.sets)) {
			if !f.sets[key].Deleted {
				all = append(all, *f.sets[key])
			}
		}
		return paged(r, all)
	case "notification-prefs":
		var all []wire.NotificationPref
		for _, key := range slices.Sorted(maps.Keys(f.prefs)) {
			if f.prefVisible(f.prefs[key]) {
				all = append(all, *f.prefs[key])
			}
		}
		return paged(r, all)
	case "quiet-hours":
		if f.quiet == nil {
			return problem(404, code.NotFound)
		}
		return 200, *f.quiet
	default:
		return problem(404, code.NotFound)
	}
}
