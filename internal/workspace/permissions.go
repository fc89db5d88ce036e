package workspace

import (
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// permissions answers the caller's permissions as of a permission version that this transaction has read.
//
// They are remembered with their version. Every change of permissions raises it and waits for the lock that
// the caller's writes hold on its principal, so that permissions of the same version are those that reading
// them again would answer; what ends by itself carries its end. The end of a sign-in raises the version too: that is
// why they are remembered for each sign-in.
func (s *Service) permissions(tx storage.Tx, by authz.Caller, version int64) (*authz.Snapshot, error) {
	if err := requireSomebody(by); err != nil {
		return nil, err
	}
	who := by.Principal + " " + by.SignIn
	s.mu.Lock()
	known, found := s.snapshots.Get(who)
	s.mu.Unlock()
	if found && known.Version == version {
		return known, nil
	}
	loaded, err := authz.LoadCaller(tx, by)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.snapshots.Put(who, loaded)
	s.mu.Unlock()
	return loaded, nil
}

// requireSomebody refuses the server itself where something is written that belongs to who wrote it.
func requireSomebody(by authz.Caller) error {
	if by.Kind == wire.KindSystem {
		return fault.New(code.NotImplementedForKind, "Only somebody who has an account can do this.")
	}
	return nil
}
