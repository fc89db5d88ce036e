package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// longest bounds a demonstration, on slow machines too.
const longest = 4 * time.Minute

// Options say how to run the demonstration.
type Options struct {
	Database string // URL; "" is a temporary SQLite file
	Out      io.Writer
	Color    bool
	Environ  []string // NAME=value
	Env      *env.Env
}

// ErrFailed is a demonstration that did not show what it must.
var ErrFailed = errors.New("the demonstration failed")

// act is a part of the story.
type act struct {
	title string
	play  func(context.Context, *stage) error
}

var acts = []act{
	{"A server, five people, two spaces", begin},
	{"What they said elsewhere is imported", importExports},
	{"Seven devices connect", gather},
	{"They talk", talk},
	{"A forum: posts are done, reopened and moved", discuss},
	{"Two devices of one person", personal},
	{"Connections drop, and come back", drop},
	{"Somebody loses access in the middle of a conversation", revoke},
	{"A device that is too slow is cut", overwhelm},
	{"Old events are removed while a device is away", retain},
	{"The server is restored: a new timeline", restore},
}

// Run runs the demonstration. Its error is ErrFailed with what is wrong, or why it could not be carried out.
func Run(ctx context.Context, o Options) (err error) {
	folder, err := os.MkdirTemp("", "cairn-demo-")
	if err != nil {
		return fmt.Errorf("make temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	s, err := newStage(o, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end(ctx)) }()
	if err := s.print(s.title()); err != nil {
		return err
	}
	for _, a := range acts {
		if err := s.print("", s.styled(bold, "━━ "+a.title)); err != nil {
			return err
		}
		if err := a.play(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(a.title[:1])+a.title[1:], err)
		}
	}
	return s.judge(ctx)
}
