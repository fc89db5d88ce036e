package workspace

import (
	"errors"
	"maps"
	"net/http"

	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func (a *API) metaRoutes() []Route {
	const tag = "meta"
	return []Route{
		{Method: get, Path: Prefix, Access: Public, Tag: tag, Summary: "What a client needs to know before it signs in", handler: giving(okay, a.discovery)},
		{
			Method: get, Path: Prefix + "/openapi.yaml", Access: Public, Tag: tag, Summary: "This document",
			handler: handler{content: typeYAML, status: okay, run: a.openapi},
		},
		{
			Method: get, Path: Prefix + "/asyncapi.yaml", Access: Public, Tag: tag, Summary: "The document of the gateway",
			handler: handler{content: typeYAML, status: okay, run: a.asyncapi},
		},
		{
			Method: get, Path: Prefix + "/gateway", Access: Public, Action: action.GatewayConnect, Tag: tag,
			Summary: "The gateway, a WebSocket; see asyncapi.yaml", handler: handler{status: http.StatusSwitchingProtocols, run: a.gateway},
		},
	}
}

func (a *API) discovery(c *call) (wire.Discovery, error) {
	state, err := storage.Read(c.Context(), a.DB, eventlog.StateOf)
	if err != nil {
		return wire.Discovery{}, err
	}
	grants := []string{wire.GrantPassword, wire.GrantLoginCode, wire.GrantRefreshToken}
	if a.OIDCIssuer != "" {
		grants = append(grants, wire.GrantOIDCCode)
	}
	return wire.Discovery{
		InstanceID: state.InstanceID, Name: state.InstanceName, Version: a.Version, ProtocolVersions: []int{wire.ProtocolVersion},
		SyncEpoch: state.SyncEpoch, GatewayPath: Prefix + "/gateway", GrantTypes: grants,
		OIDCIssuer: a.OIDCIssuer, OIDCClientID: a.OIDCClientID, DPoPAlgorithms: []string{"ES256", "EdDSA"},
	}, nil
}

func (a *API) openapi(c *call) (reply, error) { return a.text(c, a.document) }

func (a *API) asyncapi(c *call) (reply, error) { return a.text(c, a.frames) }

func (a *API) text(c *call, document []byte) (reply, error) {
	c.writer.Header().Set("Content-Type", typeYAML)
	c.writer.Header().Set("Cache-Control", "public, max-age=300")
	return reply{status: a.write(c.writer, c.Request, okay, document), sent: true}, nil
}

// gateway takes the connection out of HTTP. Who it is says the client there, in its first frame (ES-6.3).
func (a *API) gateway(c *call) (reply, error) {
	if c.Method != http.MethodGet { // a pattern for GET takes HEAD too, and a WebSocket has no head alone
		return reply{}, fault.New(code.MethodNotAllowed, "This path takes GET.")
	}
	err := a.Gateway.Upgrade(c.writer, c.Request)
	if failure, is := errors.AsType[*conn.HandshakeError](err); is {
		maps.Copy(c.writer.Header(), failure.Header)
		if failure.Status >= http.StatusInternalServerError {
			return reply{}, fault.New(code.Unavailable, "%s", failure.Reason)
		}
		return reply{}, fault.New(code.UpgradeRequired, "%s", failure.Reason)
	}
	return reply{status: http.StatusSwitchingProtocols, sent: true}, err
}
