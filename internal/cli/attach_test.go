package cli

import (
	"testing"
)

func TestAttachNeedsATerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t, "CAIRN_API_KEY=codai_x", "CAIRN_URL=http://127.0.0.1:1")
	s.refused(exitUsage, []string{"attach needs a terminal", "cairn session tail -f build"}, "attach", "build")
	s.refused(exitUsage, []string{"call it as `cairn attach SESSION`"}, "attach")
}
