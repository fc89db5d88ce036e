package acpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	acpsdk "github.com/coder/acp-go-sdk"
)

func (s *scene) spawn(ctx context.Context, line string) error {
	child := exec.Command("/bin/sh", "-c", line)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return err
	}
	return s.say(ctx, "pid "+strconv.Itoa(child.Process.Pid))
}

func (s *scene) env(ctx context.Context, name string) error {
	value, ok := os.LookupEnv(name)
	if !ok {
		value = "unset"
	}
	return s.say(ctx, value)
}

func (s *scene) cwd(ctx context.Context, _ string) error {
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	return s.say(ctx, folder)
}

func (s *scene) pid(_ context.Context, file string) error {
	return os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600)
}

func (s *scene) touch(_ context.Context, file string) error { return os.WriteFile(file, nil, 0o600) }

func (s *scene) wait(ctx context.Context, file string) error { return until(ctx, file) }

func (s *scene) garbage(_ context.Context, text string) error {
	_, err := s.out.Write([]byte(text + "\n"))
	return err
}

func (s *scene) longLine(_ context.Context, rest string) error {
	length, err := strconv.Atoi(rest)
	if err != nil {
		return err
	}
	before, after, err := s.chunkLine()
	if err != nil {
		return err
	}
	text := strings.Repeat("x", max(0, length-len(before)-len(after)))
	_, err = s.out.Write(slices.Concat(before, []byte(text), after))
	return err
}

// chunkLine is the line of a message chunk, cut in two where its text belongs: encoding it each time would be
// most of the work of many chunks, or of a long one.
func (s *scene) chunkLine() (before, after []byte, err error) {
	const text = "-text-"
	line, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "method": acpsdk.ClientMethodSessionUpdate,
		"params": acpsdk.SessionNotification{SessionId: s.session.id, Update: acpsdk.UpdateAgentMessageText(text)},
	})
	before, after, _ = bytes.Cut(line, []byte(text))
	return before, append(after, '\n'), err
}

func (s *scene) stderr(_ context.Context, text string) error {
	_, err := fmt.Fprintln(os.Stderr, text)
	return err
}

func (s *scene) die(_ context.Context, rest string) error {
	code, err := strconv.Atoi(rest)
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

func (s *scene) closeStdout(context.Context, string) error {
	s.hangs.Store(true)
	return os.Stdout.Close()
}

func (s *scene) closeStdin(context.Context, string) error {
	s.hangs.Store(true)
	return syscall.Close(0) // os.Stdin.Close would wait for the read that is under way
}

func (s *scene) hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *scene) hangForever(context.Context, string) error {
	s.hangs.Store(true)
	signal.Ignore(syscall.SIGTERM)
	if err := s.say(context.Background(), "hanging"); err != nil {
		return err
	}
	<-s.forever
	return nil
}

func (s *scene) refuse(context.Context, string) error { return stop{acpsdk.StopReasonRefusal} }

func (s *scene) stop(_ context.Context, reason string) error { return stop{acpsdk.StopReason(reason)} }

func (s *scene) error(_ context.Context, text string) error { return errors.New(text) }
