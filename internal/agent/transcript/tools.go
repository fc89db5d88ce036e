package transcript

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// kinds are what tools of agents do, in the words of the Agent Client Protocol.
var kinds = map[string]string{
	"Read": "read", "NotebookRead": "read", "LS": "read", "view_image": "read", "read_file": "read", "list_dir": "read",
	"Edit": "edit", "MultiEdit": "edit", "Write": "edit", "NotebookEdit": "edit", "apply_patch": "edit",
	"Bash": "execute", "BashOutput": "execute", "KillShell": "execute", "shell": "execute", "local_shell": "execute",
	"exec_command": "execute", "shell_command": "execute", "write_stdin": "execute", "container.exec": "execute", "unified_exec": "execute",
	"Glob": "search", "Grep": "search", "ToolSearch": "search", "grep_files": "search",
	"WebFetch": "fetch", "WebSearch": "fetch", "web_search": "fetch", "web_fetch": "fetch",
	"Task": "think", "Agent": "think", "TodoWrite": "think", "update_plan": "think", "ExitPlanMode": "switch_mode",
}

func toolKind(name string) string {
	if kind, known := kinds[name]; known {
		return kind
	}
	return "other"
}

// titleFields are the arguments that tell best what a call is about, in order.
var titleFields = []string{
	"description", "command", "cmd", "file_path", "notebook_path", "path", "pattern", "query", "url", "subject", "skill", "prompt", "action",
}

const callTitleMax = 120

// callTitle makes a title of a call's arguments, or "".
func callTitle(args json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil {
		return ""
	}
	for _, name := range titleFields {
		if shown := words(fields[name]); shown != "" {
			return clip(strings.Join(strings.Fields(printable(shown)), " "), callTitleMax)
		}
	}
	return ""
}

// words answers a text, or texts in a row.
func words(raw json.RawMessage) string {
	if one := stringOf(raw); one != "" {
		return one
	}
	var several []string
	if json.Unmarshal(raw, &several) != nil {
		return ""
	}
	if len(several) == 3 && (several[1] == "-lc" || several[1] == "-c") {
		return several[2] // sh -c SCRIPT
	}
	return strings.Join(several, " ")
}

// todoStates are how agents say how far an item is.
var todoStates = map[string]trace.TodoStatus{
	"pending": trace.TodoNotStarted, "in_progress": trace.TodoInProgress, "completed": trace.TodoCompleted,
}

// todoItem makes an item of a list; number counts from 0.
func todoItem(number int, id, title, status string) trace.Todo {
	state, known := todoStates[status]
	if !known {
		state = trace.TodoNotStarted
	}
	if id == "" {
		id = strconv.Itoa(number + 1)
	}
	return trace.Todo{ID: id, Title: title, Status: state}
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
