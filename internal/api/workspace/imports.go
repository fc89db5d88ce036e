package workspace

import (
	"reflect"

	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func (a *API) importRoutes() []Route {
	const tag, all, one = "imports", Prefix + "/imports", Prefix + "/imports/{id}"
	begin := handler{
		body: reflect.TypeFor[wire.NewImport](), answer: reflect.TypeFor[wire.Import](), status: created, run: a.createImport,
	}
	return []Route{
		{
			Method: get, Path: all, Action: action.SelfRead, Tag: tag, Summary: "The imports into spaces the caller manages",
			Query: paged(), handler: giving(okay, a.imports),
		},
		{
			Method: post, Path: all, Action: action.ImportApply, Tag: tag, Replays: true, handler: begin,
			Summary: "Begin an import, or go on with the one of this source (200)",
		},
		{Method: get, Path: one, Action: action.ImportApply, Tag: tag, Summary: "An import", handler: giving(okay, a.oneImport)},
		{
			Method: post, Path: one + "/batches", Action: action.ImportApply, Tag: tag, Unkeyed: true,
			Summary: "Apply part of one thread; what was applied before is skipped by its source id", handler: taking(okay, a.applyBatch),
		},
		{
			Method: post, Path: one + "/finish", Action: action.ImportApply, Tag: tag, Summary: "End an import",
			handler: taking(okay, a.finishImport),
		},
	}
}

func (a *API) imports(c *call) (wire.Page[wire.Import], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.Import], error) { return a.Imports.List(c.Context(), c.by, p) })
}

func (a *API) createImport(c *call) (reply, error) {
	begun, isNew, err := a.Imports.Create(c.Context(), c.by, c.body.(wire.NewImport))
	if !isNew {
		return reply{status: okay, body: begun}, err
	}
	return reply{status: created, body: begun}, err
}

func (a *API) oneImport(c *call) (wire.Import, error) {
	return a.Imports.Get(c.Context(), c.by, c.id("id"))
}

func (a *API) applyBatch(c *call, in wire.ImportBatch) (wire.ImportReceipt, error) {
	return a.Imports.Apply(c.Context(), c.by, c.id("id"), in)
}

func (a *API) finishImport(c *call, _ Nothing) (wire.Import, error) {
	return a.Imports.Finish(c.Context(), c.by, c.id("id"))
}
