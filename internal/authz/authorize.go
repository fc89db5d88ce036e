package authz

import (
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Caller is who asks, as authentication found it out.
type Caller struct {
	Principal string
	Kind      wire.Kind
	Device    string    // of a person; empty for agents and apps
	SignIn    string    // sid; empty for API tokens
	AuthTime  time.Time // when the person last proved who it is (WS-ID-5)
	// StepUpMaxAge is auth.step_up_max_age.
	StepUpMaxAge time.Duration
	// Correlation and Trace follow the request into its events.
	Correlation string
	Trace       string
	// Key is the request's Idempotency-Key, nil without one.
	Key *idempotency.Key
}

// Actor is the caller as events name it.
func (c Caller) Actor() wire.Actor { return wire.Actor{ID: c.Principal, Kind: c.Kind} }

// System is the caller of what the server does by itself, and of whoever administers it on its own machine,
// with the database in hand: every action is allowed. No authentication answers it.
func System() Caller { return Caller{Kind: wire.KindSystem} }

// AuditID is the caller as audit rows name it.
func (c Caller) AuditID() string {
	if c.Kind == wire.KindSystem {
		return audit.System
	}
	return c.Principal
}

// Lock is the key every write of the caller declares: its permissions stay as they are until the commit.
func (c Caller) Lock() storage.Key {
	return storage.Key{Lock: storage.LockPrincipals, ID: c.Principal}
}

// Resource is what an action is about.
type Resource struct {
	// What names it in a refusal: "Channel", "Message".
	What string
	Place
	// Owner is the principal it belongs to: the author, the uploader.
	Owner string
	// Audience is the principal of a personal event.
	Audience string
	// Shared says that the caller and the principal in question see a channel together.
	Shared bool
	Host   string
}

// May decides without a refusal: whether the principal sees the resource of an action, and whether it may
// do the action to it. It is what deliveries ask; Authorize puts it into a refusal.
func (s *Snapshot) May(a action.Action, r *Resource, now time.Time) (sees, may bool) {
	rule, known := table[a]
	if !known || !s.Active() || rule.People && s.Principal.Kind != wire.KindUser {
		return false, false
	}
	own := r.Owner != "" && r.Owner == s.Principal.ID
	switch rule.place {
	case onNothing:
		return true, true
	case onAudience:
		ok := r.Audience != "" && r.Audience == s.Principal.ID
		return ok, ok
	case onOwn:
		return own, own
	case onPrincipal:
		ok := own || r.Shared || s.SeesEverything(now)
		return ok, ok
	case onHost:
		ok := own || alive(s.hosts[r.Host], now)
		return ok, ok
	case onInstance:
		return true, reaches(highest(s.instance, now), rule.level)
	case onTarget:
		return s.seesTarget(r, now), reaches(s.granted(r.Place, now), rule.level)
	case onVisible:
		sees = r.SpaceID != "" && s.SeesSpace(r.SpaceID, now) || r.SpaceID == "" && s.SeesEverything(now)
		return sees, sees && reaches(s.Level(r.Place, now), rule.level)
	case onSpace:
		sees = s.SeesSpace(r.SpaceID, now)
		return sees, sees && reaches(s.reached(rule, r.Place, now), rule.level)
	default: // onChannel
		return s.onChannel(a, rule, r, own, now)
	}
}

// seesTarget reports whether the principal sees a channel, a space, or the instance, which nobody is hidden from.
func (s *Snapshot) seesTarget(r *Resource, now time.Time) bool {
	switch {
	case r.ChannelID != "":
		return s.granted(r.Place, now) != wire.LevelNone
	case r.SpaceID != "":
		return s.SeesSpace(r.SpaceID, now)
	default:
		return true
	}
}

func (s *Snapshot) onChannel(a action.Action, rule Rule, r *Resource, own bool, now time.Time) (sees, may bool) {
	if r.ChannelID == "" && r.SpaceID == "" && !own { // the resource is nowhere: only its owner reaches it
		return false, false
	}
	if own && a == action.FileRead {
		return true, true
	}
	sees = s.granted(r.Place, now) != wire.LevelNone
	switch {
	case own && rule.ownLevel != wire.LevelNone && reaches(s.granted(r.Place, now), rule.ownLevel):
		may = true
	case rule.own && !own:
		may = false
	default:
		may = reaches(s.reached(rule, r.Place, now), rule.level)
	}
	return sees, sees && may
}

// reached is the level that counts for a rule: an archive caps it but for what it does not hinder.
func (s *Snapshot) reached(rule Rule, p Place, now time.Time) wire.Level {
	if rule.uncapped {
		return s.granted(p, now)
	}
	return s.Level(p, now)
}

func reaches(level, needed wire.Level) bool { return level.Rank() >= needed.Rank() }

// Authorize answers nil, or not_found for what the caller does not see, forbidden for what it sees but may
// not do, step_up_required where the sign-in is too old (WS-AZ-4, WS-AZ-5).
func Authorize(s *Snapshot, by Caller, a action.Action, r Resource, now time.Time) error {
	rule, known := table[a]
	if s.system && known {
		return nil
	}
	switch sees, may := s.May(a, &r, now); {
	case !known:
		return fault.New(code.InternalError, "This action has no rule.")
	case !s.Active():
		return fault.New(code.InvalidToken, "The account is not active.")
	case rule.People && s.Principal.Kind != wire.KindUser:
		return fault.New(code.NotImplementedForKind, "Only people can do this.")
	case !sees:
		return fault.Missing(r.What)
	case !may:
		return fault.New(code.Forbidden, "%s", s.lacks(rule, &r, now))
	case rule.StepUp && now.Sub(by.AuthTime) > by.StepUpMaxAge:
		return fault.New(code.StepUpRequired, "Sign in again to do this.")
	default:
		return nil
	}
}

// lacks says what keeps a principal from an action on something it sees.
func (s *Snapshot) lacks(rule Rule, r *Resource, now time.Time) string {
	where, needed := "the instance", rule.level
	if r.Owner == s.Principal.ID && rule.ownLevel != wire.LevelNone {
		needed = rule.ownLevel
	}
	switch {
	case rule.own && r.Owner != s.Principal.ID:
		return "Only who it belongs to may do this."
	case rule.place == onInstance:
	case r.ChannelID != "":
		where = "the channel"
	case r.SpaceID != "":
		where = "the space"
	}
	if rule.place == onInstance || !reaches(s.granted(r.Place, now), needed) {
		return "This needs the level " + string(needed) + " on " + where + "."
	}
	switch {
	case r.SpaceArchived:
		return "The space is archived."
	case r.Archived:
		return "The channel is archived."
	default:
		return "The channel is read-only: this needs the level " + string(wire.LevelManage) + " on it."
	}
}

// Check loads the caller's snapshot in the transaction and authorises. It answers the snapshot for further
// decisions of the same write.
func Check(tx storage.Tx, by Caller, a action.Action, r Resource) (*Snapshot, error) {
	if by.Kind == wire.KindSystem {
		s := system()
		return s, Authorize(s, by, a, r, tx.Now())
	}
	s, err := LoadCaller(tx, by)
	if err != nil {
		return nil, err
	}
	return s, Authorize(s, by, a, r, tx.Now())
}
