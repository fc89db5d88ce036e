package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Limits of messages and events as they are by default.
const (
	maxChars       = 20_000
	maxAttachments = 10
	maxPayload     = 64 << 10
)

// premises is a workspace with people in it, made straight in a database before a server serves it.
type premises struct {
	db     storage.DB
	url    string
	env    *env.Env
	domain *workspace.Service
	owner  authz.Caller
	space  wire.Space
}

// premises makes a space with its owner. The caller closes db.
func (b *bench) premises(ctx context.Context, engine string) (*premises, error) {
	p := &premises{url: b.databaseURL(engine), env: b.env}
	var err error
	if p.db, err = storage.Open(ctx, storage.Options{URL: p.url}); err != nil {
		return nil, err
	}
	p.domain = domainOn(p.db, b.env)
	if err := p.begin(ctx); err != nil {
		return nil, errors.Join(err, p.db.Close())
	}
	return p, nil
}

func (b *bench) databaseURL(engine string) string {
	if engine == postgres {
		return b.Postgres
	}
	return "sqlite:" + filepath.Join(b.dir, b.env.RandomID()+".db")
}

// domainOn is the domain over a database, without a server.
func domainOn(db storage.DB, e *env.Env) *workspace.Service {
	log := eventlog.New(eventlog.Options{MaxPayload: maxPayload, NewID: e.NewID})
	return workspace.New(workspace.Options{
		DB: db, Log: log, Authz: authz.New(db, log, e), Env: e, MaxChars: maxChars, MaxAttachments: maxAttachments, MaxPayload: maxPayload,
	})
}

func (p *premises) begin(ctx context.Context) error {
	ids, err := p.people(ctx, 1)
	if err != nil {
		return err
	}
	p.owner = p.caller(ids[0])
	if err := p.grant(ctx, wire.SubjectPrincipal, ids[0], wire.LevelOwner, wire.Target{Kind: wire.TargetInstance}); err != nil {
		return err
	}
	p.space, err = p.domain.CreateSpace(ctx, p.owner, wire.NewSpace{Name: "bench"})
	return err
}

// caller is a person who has just signed in.
func (p *premises) caller(id string) authz.Caller {
	return authz.Caller{Principal: id, Kind: wire.KindUser, AuthTime: p.env.Now(), StepUpMaxAge: time.Hour}
}

// Tables that are filled directly: a thousand people one after another would be most of a measurement.
var (
	usersTable = storage.Table{Name: "users", Columns: []storage.Column{
		{Name: "id", Type: storage.Text}, {Name: "name", Type: storage.Text}, {Name: "created_at", Type: storage.Bigint},
	}}
	principalsTable = storage.Table{Name: "principals", Columns: []storage.Column{
		{Name: "id", Type: storage.Text}, {Name: "kind", Type: storage.Text}, {Name: "handle", Type: storage.Text},
		{Name: "display_name", Type: storage.Text}, {Name: "status", Type: storage.Text}, {Name: "created_at", Type: storage.Bigint},
	}}
	membersTable = storage.Table{Name: "group_members", Columns: []storage.Column{
		{Name: "group_id", Type: storage.Text}, {Name: "principal_id", Type: storage.Text},
	}}
	codesTable = storage.Table{Name: "login_codes", Columns: []storage.Column{
		{Name: "hash", Type: storage.Text}, {Name: "user_id", Type: storage.Text},
		{Name: "created_at", Type: storage.Bigint}, {Name: "expires_at", Type: storage.Bigint},
	}}
)

// people adds n persons.
func (p *premises) people(ctx context.Context, n int) ([]string, error) {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = p.env.NewID()
	}
	return ids, p.db.Write(ctx, nil, func(tx storage.Tx) error {
		users, principals := make([][]any, n), make([][]any, n)
		for i, id := range ids {
			users[i] = []any{id, "bench-" + id, tx.Now()}
			principals[i] = []any{id, "user", "b-" + id, "Bench", "active", tx.Now()}
		}
		return errors.Join(tx.Insert(usersTable, users), tx.Insert(principalsTable, principals))
	})
}

// crowd puts people into a new group.
func (p *premises) crowd(ctx context.Context, people []string) (string, error) {
	id := p.env.NewID()
	return id, p.db.Write(ctx, nil, func(tx storage.Tx) error {
		if err := tx.Exec(`INSERT INTO principal_groups (id, name, created_at) VALUES ($1, $1, $2)`, id, tx.Now()); err != nil {
			return err
		}
		rows := make([][]any, len(people))
		for i, person := range people {
			rows[i] = []any{id, person}
		}
		return tx.Insert(membersTable, rows)
	})
}

func (p *premises) grant(ctx context.Context, kind, subject string, level wire.Level, on wire.Target) error {
	return p.db.Write(ctx, nil, func(tx storage.Tx) error {
		return tx.Exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, p.env.NewID(), kind, subject, on.Kind, on.ID, level, tx.Now())
	})
}

// channels makes n text channels and lets a group write in them.
func (p *premises) channels(ctx context.Context, n int, crowd string) ([]wire.Channel, error) {
	made := make([]wire.Channel, n)
	return made, each(n, 32, func(i int) error {
		var err error
		in := wire.NewChannel{SpaceID: p.space.ID, Kind: wire.ChannelText, Name: fmt.Sprintf("bench-%d", i)}
		if made[i], err = p.domain.CreateChannel(ctx, p.owner, in); err != nil || crowd == "" {
			return err
		}
		return p.grant(ctx, wire.SubjectGroup, crowd, wire.LevelWrite, wire.Target{Kind: wire.TargetChannel, ID: made[i].ID})
	})
}

// threads makes n threads in a channel.
func (p *premises) threads(ctx context.Context, channel string, n int) ([]string, error) {
	ids := make([]string, n)
	return ids, each(n, 64, func(i int) error {
		made, _, err := p.domain.StartThread(ctx, p.owner, channel, wire.NewThread{
			Title: fmt.Sprintf("thread %d", i), ClientMsgID: p.env.NewID(), ContentMD: "begin",
		})
		ids[i] = made.Thread.ID
		return err
	})
}

// each runs work for 0 to n-1, so many at a time.
func each(n, together int, work func(i int) error) error {
	var (
		working  sync.WaitGroup
		slots    = make(chan struct{}, together)
		failures = make([]error, n)
	)
	for i := range n {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			failures[i] = work(i)
		})
	}
	working.Wait()
	return errors.Join(failures...)
}

// codes makes a login code for every entry of people, which may name one more than once.
func (p *premises) codes(ctx context.Context, people []string) ([]string, error) {
	texts := make([]string, len(people))
	return texts, p.db.Write(ctx, nil, func(tx storage.Tx) error {
		rows := make([][]any, len(people))
		for i, person := range people {
			text, hash := token.NewCode(p.env)
			texts[i] = text
			rows[i] = []any{hash, person, tx.Now(), tx.Now().Add(time.Hour)}
		}
		return tx.Insert(codesTable, rows)
	})
}

// serve closes the database in this process and starts a server on it, which does not limit anybody.
func (b *bench) serve(ctx context.Context, p *premises, settings ...string) (*site, error) {
	if err := p.db.Close(); err != nil {
		return nil, err
	}
	s := &site{bench: b, env: b.env, database: p.url}
	settings = append([]string{
		"limits.enabled=false", "auth.access_token_ttl=2h", "auth.dpop_nonce_ttl=30m", "sync.heartbeat_interval=10m",
	}, settings...)
	return s, s.start(ctx, settings...)
}

// seats signs a device in with every code.
func (s *site) seats(ctx context.Context, codes []string) ([]*seat, error) {
	shared := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer shared.CloseIdleConnections()
	seats := make([]*seat, len(codes))
	err := each(len(codes), 64, func(i int) error {
		keys := &client.MemoryKeys{}
		c, err := client.New(client.Config{
			BaseURL: s.hello, HTTP: shared, Keys: keys, Device: client.Device{ID: s.env.RandomID(), Name: "bench", Platform: "bench"},
		})
		if err != nil {
			return err
		}
		answer, err := c.SignIn(ctx, client.LoginCode(codes[i]))
		if err != nil {
			return err
		}
		key, err := keys.Key()
		seats[i] = &seat{key: key, device: c.DeviceID(), token: answer.AccessToken}
		return err
	})
	return seats, err
}

// nonce asks for a nonce that proofs can name.
func (s *site) nonce(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.hello+"/api/v1/me", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "DPoP x")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // only its head matters
	nonce := response.Header.Get(wire.HeaderDPoPNonce)
	if nonce == "" {
		return "", errors.New("the server gave no nonce")
	}
	return nonce, nil
}
