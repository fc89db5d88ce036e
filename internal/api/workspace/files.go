package workspace

import (
	"mime"
	"net/http"
	"reflect"

	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func (a *API) fileRoutes() []Route {
	const tag, all, one = "files", Prefix + "/files", Prefix + "/files/{id}"
	content := handler{answer: reflect.TypeFor[wire.File](), status: okay, rawBody: true, run: a.putContent}
	return []Route{
		{Method: post, Path: all, Action: action.FileCreate, Tag: tag, Summary: "Announce a file", handler: taking(created, a.createFile)},
		{
			Method: put, Path: one + "/content", Action: action.FileCreate, Tag: tag, Unkeyed: true,
			Summary: "Upload the bytes of a file; the same bytes again change nothing", handler: content,
		},
		{Method: get, Path: one, Action: action.FileRead, Tag: tag, Summary: "A file", handler: giving(okay, a.file)},
		{
			Method: get, Path: one + "/content", Action: action.FileRead, Tag: tag, Summary: "The bytes of a file, or a range of them",
			handler: handler{content: "*/*", status: okay, run: a.content},
		},
		{
			Method: remove, Path: one, Action: action.FileDelete, Tag: tag, Summary: "Delete one's own file",
			IfMatch: Optional, handler: doing(a.deleteFile),
		},
	}
}

func (a *API) createFile(c *call, in wire.NewFile) (wire.File, error) {
	return a.Files.Create(c.Context(), c.by, in)
}

// putContent lets the bytes through as they come: the file's own size bounds them, not the memory of bodies. A
// client that sends nothing for a while loses its connection; one that sends slowly may take its time.
func (a *API) putContent(c *call) (reply, error) {
	body := &patientReader{body: c.Body, control: http.NewResponseController(c.writer), env: a.Env}
	file, err := a.Files.Upload(c.Context(), c.by, c.id("id"), body)
	return reply{status: okay, body: file}, err
}

func (a *API) file(c *call) (wire.File, error) { return a.Files.Get(c.Context(), c.by, c.id("id")) }

// content serves the bytes as something to download: nothing that somebody uploaded runs in the server's name.
func (a *API) content(c *call) (reply, error) {
	content, err := a.Files.Open(c.Context(), c.by, c.id("id"))
	if err != nil {
		return reply{}, err
	}
	defer content.Close()
	header := c.writer.Header()
	header.Set("Content-Type", content.File.MimeType)
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": content.File.OriginalName}))
	if content.File.SHA256 != "" {
		header.Set(headerETag, `"`+content.File.SHA256+`"`)
	}
	status := &statusWriter{patientWriter: patientWriter{ResponseWriter: c.writer, env: a.Env}, status: okay}
	http.ServeContent(status, c.Request, "", content.File.CreatedAt, content)
	switch status.status {
	case http.StatusRequestedRangeNotSatisfiable:
		return reply{}, fault.New(code.RangeNotSatisfiable, "The file has %d bytes.", content.File.SizeBytes)
	case http.StatusPreconditionFailed:
		return reply{}, fault.New(code.VersionConflict, "The file has other bytes.")
	default:
		return reply{status: status.status, sent: true}, nil
	}
}

func (a *API) deleteFile(c *call) error {
	return a.Files.Delete(c.Context(), c.by, c.id("id"), c.version)
}
