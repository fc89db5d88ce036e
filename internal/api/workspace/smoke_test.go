package workspace_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const api = "/api/v1"

func TestSmoke(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, nil)
		ada := s.Person(t, "ada")
		space := ada.Space(t, "home")
		channel := ada.Channel(t, space.ID, "general")
		message := ada.Say(t, channel.MainThreadID, "hello")
		read := servertest.Read[wire.Message](t, ada.Do(t, http.MethodGet, api+"/messages/"+message.ID, nil), http.StatusOK)
		require.Equal(t, "hello", read.ContentMD)
	})
}
