package acpagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	acpsdk "github.com/coder/acp-go-sdk"
)

// scene is one prompt that is played.
type scene struct {
	*agent
	session *session
	prompt  string
	usage   *acpsdk.Usage
}

// stop ends a prompt with a reason.
type stop struct{ reason acpsdk.StopReason }

// Error names the reason.
func (s stop) Error() string { return "stop: " + string(s.reason) }

// actions by their first word.
var actions map[string]func(*scene, context.Context, string) error

func init() { //nolint:gochecknoinits // a table of methods that look themselves up in it
	actions = map[string]func(*scene, context.Context, string) error{
		"say": (*scene).say, "think": (*scene).think, "echo": (*scene).echo, "chunks": (*scene).chunks,
		"tool": (*scene).tool, "open": (*scene).open, "fail": (*scene).fail, "diff": (*scene).diff, "plan": (*scene).plan,
		"usage": (*scene).spend, "cost": (*scene).cost,
		"ask": (*scene).ask, "asks": (*scene).asks, "askuntil": (*scene).askUntil,
		"read": (*scene).read, "lines": (*scene).lines, "rawread": (*scene).rawRead, "reads": (*scene).reads,
		"write": (*scene).write, "rawwrite": (*scene).rawWrite,
		"terminal": (*scene).terminal, "background": (*scene).background, "output": (*scene).output,
		"kill": (*scene).kill, "release": (*scene).release, "exit": (*scene).exit,
		"spawn": (*scene).spawn, "call": (*scene).call, "env": (*scene).env, "cwd": (*scene).cwd, "pid": (*scene).pid,
		"touch": (*scene).touch, "wait": (*scene).wait,
		"garbage": (*scene).garbage, "longline": (*scene).longLine, "stderr": (*scene).stderr, "die": (*scene).die,
		"closestdout": (*scene).closeStdout, "closestdin": (*scene).closeStdin,
		"hang": (*scene).hang, "hangforever": (*scene).hangForever,
		"refuse": (*scene).refuse, "stop": (*scene).stop, "error": (*scene).error,
	}
}

// play does one action after the other.
func (a *agent) play(ctx context.Context, current *session, prompt string) (acpsdk.PromptResponse, error) {
	s := &scene{agent: a, session: current, prompt: prompt}
	first, _, _ := strings.Cut(strings.TrimSpace(prompt), " ")
	first, _, _ = strings.Cut(first, "\n")
	if actions[first] == nil {
		if err := s.say(ctx, "you said: "+prompt); err != nil {
			return acpsdk.PromptResponse{}, err
		}
		return acpsdk.PromptResponse{StopReason: acpsdk.StopReasonEndTurn}, nil
	}
	script := strings.NewReplacer("$ROOT", current.cwd, "$SESSION", string(current.id)).Replace(prompt)
	for line := range strings.SplitSeq(script, "\n") {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		err := fmt.Errorf("there is no action %q", name)
		if action := actions[name]; action != nil {
			err = action(s, ctx, rest)
		}
		var ended stop
		switch {
		case errors.As(err, &ended):
			return acpsdk.PromptResponse{StopReason: ended.reason, Usage: s.usage}, nil
		case ctx.Err() != nil:
			return acpsdk.PromptResponse{StopReason: acpsdk.StopReasonCancelled, Usage: s.usage}, nil
		case err != nil:
			return acpsdk.PromptResponse{}, err
		}
	}
	return acpsdk.PromptResponse{StopReason: acpsdk.StopReasonEndTurn, Usage: s.usage}, nil
}

// update sends an update of the session.
func (s *scene) update(update acpsdk.SessionUpdate) error {
	return s.conn.SessionUpdate(context.Background(), acpsdk.SessionNotification{SessionId: s.session.id, Update: update})
}

func (s *scene) say(_ context.Context, text string) error {
	return s.update(acpsdk.UpdateAgentMessageText(text))
}

func (s *scene) think(_ context.Context, text string) error {
	return s.update(acpsdk.UpdateAgentThoughtText(text))
}

func (s *scene) echo(ctx context.Context, _ string) error { return s.say(ctx, s.prompt) }

func (s *scene) chunks(ctx context.Context, rest string) error {
	count, text, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	before, after, err := s.chunkLine()
	if err != nil {
		return err
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return err
	}
	line := slices.Concat(before, quoted[1:len(quoted)-1], after)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.options.progress != "" && i%100 == 0 {
			if err := os.WriteFile(s.options.progress, []byte(strconv.Itoa(i)), 0o600); err != nil {
				return err
			}
		}
		if _, err := s.out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) tool(_ context.Context, rest string) error {
	words := strings.SplitN(rest, " ", 3)
	if len(words) < 3 {
		return errors.New("tool ID KIND TITLE")
	}
	id := acpsdk.ToolCallId(words[0])
	return s.updates(
		acpsdk.StartToolCall(id, words[2], acpsdk.WithStartKind(acpsdk.ToolKind(words[1])), acpsdk.WithStartStatus(acpsdk.ToolCallStatusPending)),
		acpsdk.UpdateToolCall(id, acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusInProgress), acpsdk.WithUpdateRawInput(map[string]any{"title": words[2]})),
		acpsdk.UpdateToolCall(id, acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusCompleted), acpsdk.WithUpdateContent(
			[]acpsdk.ToolCallContent{acpsdk.ToolContent(acpsdk.TextBlock("result of " + words[0]))})),
	)
}

func (s *scene) updates(all ...acpsdk.SessionUpdate) error {
	for _, each := range all {
		if err := s.update(each); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) open(_ context.Context, id string) error {
	return s.update(acpsdk.StartToolCall(acpsdk.ToolCallId(id), "call "+id, acpsdk.WithStartKind(acpsdk.ToolKindExecute),
		acpsdk.WithStartStatus(acpsdk.ToolCallStatusInProgress), acpsdk.WithStartRawInput(map[string]any{"id": id})))
}

func (s *scene) fail(_ context.Context, id string) error {
	return s.updates(
		acpsdk.UpdateToolCall(acpsdk.ToolCallId(id), acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusFailed), acpsdk.WithUpdateContent(
			[]acpsdk.ToolCallContent{acpsdk.ToolContent(acpsdk.TextBlock("it failed"))})))
}

func (s *scene) diff(_ context.Context, path string) error {
	id := acpsdk.ToolCallId("diff-" + path)
	return s.updates(
		acpsdk.StartEditToolCall(id, "Edit "+path, path, "new\n"),
		acpsdk.UpdateToolCall(id, acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusCompleted),
			acpsdk.WithUpdateContent([]acpsdk.ToolCallContent{acpsdk.ToolDiffContent(path, "new\n", "old\n")})),
	)
}

func (s *scene) plan(_ context.Context, rest string) error {
	var entries []acpsdk.PlanEntry
	for item := range strings.SplitSeq(rest, "|") {
		entry := acpsdk.PlanEntry{Content: strings.TrimRight(item, "*+"), Priority: acpsdk.PlanEntryPriorityMedium, Status: acpsdk.PlanEntryStatusPending}
		switch {
		case strings.HasSuffix(item, "*"):
			entry.Status = acpsdk.PlanEntryStatusInProgress
		case strings.HasSuffix(item, "+"):
			entry.Status = acpsdk.PlanEntryStatusCompleted
		}
		entries = append(entries, entry)
	}
	return s.update(acpsdk.UpdatePlan(entries...))
}

func (s *scene) spend(_ context.Context, rest string) error {
	var in, out int
	if _, err := fmt.Sscan(rest, &in, &out); err != nil {
		return err
	}
	if s.usage == nil {
		s.usage = &acpsdk.Usage{}
	}
	s.usage.InputTokens += in
	s.usage.OutputTokens += out
	s.usage.TotalTokens += in + out
	return nil
}

func (s *scene) cost(_ context.Context, rest string) error {
	amount, err := strconv.ParseFloat(rest, 64)
	if err != nil {
		return err
	}
	return s.update(acpsdk.SessionUpdate{UsageUpdate: &acpsdk.SessionUsageUpdate{
		Cost: &acpsdk.Cost{Amount: amount, Currency: "USD"}, Size: 1000, Used: 10,
	}})
}
