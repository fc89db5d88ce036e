package acpagent

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	acpsdk "github.com/coder/acp-go-sdk"
)

// usual are the options of a permission request that names none.
const usual = "allow:allow_once,always:allow_always,reject:reject_once"

func permissionOptions(text string) []acpsdk.PermissionOption {
	var made []acpsdk.PermissionOption
	for each := range strings.SplitSeq(text, ",") {
		name, kind, _ := strings.Cut(each, ":")
		made = append(made, acpsdk.PermissionOption{
			OptionId: acpsdk.PermissionOptionId(name), Name: "Option " + name, Kind: acpsdk.PermissionOptionKind(kind),
		})
	}
	return made
}

// request asks for permission and answers the option, or "cancelled". ctx withdraws it.
func (s *scene) request(ctx context.Context, id, title, options string) (string, error) {
	answer, err := s.conn.RequestPermission(ctx, acpsdk.RequestPermissionRequest{
		SessionId: s.session.id, Options: permissionOptions(options),
		ToolCall: acpsdk.ToolCallUpdate{
			ToolCallId: acpsdk.ToolCallId(id), Title: &title, Kind: acpsdk.Ptr(acpsdk.ToolKindExecute),
			Status: acpsdk.Ptr(acpsdk.ToolCallStatusPending), RawInput: map[string]any{"command": "run " + id},
		},
	})
	switch {
	case err != nil:
		return "", err
	case answer.Outcome.Selected != nil:
		return string(answer.Outcome.Selected.OptionId), nil
	default:
		return "cancelled", nil
	}
}

// ask waits for its answer even when the prompt is cancelled: the client has to give one.
func (s *scene) ask(ctx context.Context, rest string) error {
	id, title, _ := strings.Cut(rest, " ")
	options := usual
	if head, last, ok := cutLast(title); ok && strings.Contains(last, ":") {
		title, options = head, strings.Trim(last, "[]")
	}
	got, err := s.request(context.Background(), id, title, options)
	if err != nil {
		return err
	}
	return s.say(ctx, got)
}

func cutLast(text string) (head, last string, ok bool) {
	at := strings.LastIndexByte(text, ' ')
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+1:], true
}

func (s *scene) asks(ctx context.Context, rest string) error {
	n, err := strconv.Atoi(rest)
	if err != nil {
		return err
	}
	got := make([]string, n)
	var open sync.WaitGroup
	for i := range n {
		open.Go(func() {
			option, err := s.request(context.Background(), "t"+strconv.Itoa(i+1), "Ask "+strconv.Itoa(i+1), usual)
			if err != nil {
				option = err.Error()
			}
			got[i] = strconv.Itoa(i+1) + ":" + option
		})
	}
	open.Wait()
	return s.say(ctx, strings.Join(got, " "))
}

func (s *scene) askUntil(ctx context.Context, rest string) error {
	file, rest, _ := strings.Cut(rest, " ")
	id, title, _ := strings.Cut(rest, " ")
	asking, withdraw := context.WithCancel(ctx)
	defer withdraw()
	go func() {
		_ = until(asking, file)
		withdraw()
	}()
	got, err := s.request(asking, id, title, usual)
	if err != nil {
		got = "withdrawn"
	}
	return s.say(ctx, got)
}

// path is a path of a script: relative ones count from the root.
func (s *scene) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.session.cwd, path)
}

func (s *scene) read(ctx context.Context, path string) error { return s.rawRead(ctx, s.path(path)) }

func (s *scene) rawRead(ctx context.Context, path string) error {
	return s.sayFile(ctx, acpsdk.ReadTextFileRequest{SessionId: s.session.id, Path: path})
}

func (s *scene) sayFile(ctx context.Context, request acpsdk.ReadTextFileRequest) error {
	answer, err := s.conn.ReadTextFile(ctx, request)
	if err != nil {
		return s.say(ctx, "error: "+err.Error())
	}
	return s.say(ctx, "read: "+answer.Content)
}

func (s *scene) lines(ctx context.Context, rest string) error {
	var path string
	var line, limit int
	if _, err := fmt.Sscan(rest, &path, &line, &limit); err != nil {
		return err
	}
	return s.sayFile(ctx, acpsdk.ReadTextFileRequest{SessionId: s.session.id, Path: s.path(path), Line: &line, Limit: &limit})
}

func (s *scene) reads(ctx context.Context, rest string) error {
	count, path, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	var open sync.WaitGroup
	var mu sync.Mutex // guards fine
	fine := 0
	for range n {
		open.Go(func() {
			_, err := s.conn.ReadTextFile(ctx, acpsdk.ReadTextFileRequest{SessionId: s.session.id, Path: s.path(path)})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				fine++
			}
		})
	}
	open.Wait()
	return s.say(ctx, fmt.Sprintf("%d of %d", fine, n))
}

func (s *scene) write(ctx context.Context, rest string) error {
	path, text, _ := strings.Cut(rest, " ")
	return s.rawWrite(ctx, s.path(path)+" "+text)
}

func (s *scene) rawWrite(ctx context.Context, rest string) error {
	path, text, _ := strings.Cut(rest, " ")
	_, err := s.conn.WriteTextFile(ctx, acpsdk.WriteTextFileRequest{
		SessionId: s.session.id, Path: path, Content: strings.ReplaceAll(text, `\n`, "\n"),
	})
	if err != nil {
		return s.say(ctx, "error: "+err.Error())
	}
	return s.say(ctx, "wrote")
}

func (s *scene) create(ctx context.Context, line string) (string, error) {
	answer, err := s.conn.CreateTerminal(ctx, acpsdk.CreateTerminalRequest{
		SessionId: s.session.id, Command: "/bin/sh", Args: []string{"-c", line}, Cwd: &s.session.cwd,
		Env: []acpsdk.EnvVariable{{Name: "FROM_AGENT", Value: "yes"}},
	})
	return answer.TerminalId, err
}

func (s *scene) terminal(ctx context.Context, line string) error {
	id, err := s.create(ctx, line)
	if err != nil {
		return s.say(ctx, "error: "+err.Error())
	}
	call := acpsdk.ToolCallId("run-" + id)
	err = s.update(acpsdk.StartToolCall(call, line, acpsdk.WithStartKind(acpsdk.ToolKindExecute),
		acpsdk.WithStartStatus(acpsdk.ToolCallStatusInProgress), acpsdk.WithStartRawInput(map[string]any{"command": line}),
		acpsdk.WithStartContent([]acpsdk.ToolCallContent{acpsdk.ToolTerminalRef(id)})))
	if err != nil {
		return err
	}
	if err := s.exit(ctx, id); err != nil {
		return err
	}
	if err := s.update(acpsdk.UpdateToolCall(call, acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusCompleted))); err != nil {
		return err
	}
	return s.release(ctx, id)
}

func (s *scene) background(ctx context.Context, line string) error {
	id, err := s.create(ctx, line)
	if err != nil {
		return s.say(ctx, "error: "+err.Error())
	}
	return s.say(ctx, "terminal "+id)
}

func (s *scene) exit(ctx context.Context, id string) error {
	ended, err := s.conn.WaitForTerminalExit(ctx, acpsdk.WaitForTerminalExitRequest{SessionId: s.session.id, TerminalId: id})
	if err != nil {
		return s.say(ctx, "error: "+err.Error())
	}
	if err := s.output(ctx, id); err != nil {
		return err
	}
	if ended.Signal != nil {
		return s.say(ctx, "signal "+*ended.Signal)
	}
	return s.say(ctx, fmt.Sprintf("exit %d", *ended.ExitCode))
}

func (s *scene) output(ctx context.Context, id string) error {
	answer, err := s.conn.TerminalOutput(ctx, acpsdk.TerminalOutputRequest{SessionId: s.session.id, TerminalId: id})
	if err != nil {
		return s.say(ctx, "error: "+err.Error())
	}
	return s.say(ctx, "printed: "+answer.Output)
}

func (s *scene) kill(ctx context.Context, id string) error {
	_, err := s.conn.KillTerminal(ctx, acpsdk.KillTerminalRequest{SessionId: s.session.id, TerminalId: id})
	return s.unless(ctx, err)
}

func (s *scene) release(ctx context.Context, id string) error {
	_, err := s.conn.ReleaseTerminal(ctx, acpsdk.ReleaseTerminalRequest{SessionId: s.session.id, TerminalId: id})
	return s.unless(ctx, err)
}

// unless says an error, if there is one.
func (s *scene) unless(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return s.say(ctx, "error: "+err.Error())
}

func (s *scene) call(ctx context.Context, method string) error {
	_, err := s.conn.CallExtension(ctx, method, map[string]any{})
	return s.unless(ctx, err)
}
