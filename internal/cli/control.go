package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// controlCommand is a command that sends a control of one kind.
type controlCommand struct {
	kind  wire.ControlKind
	use   string // after the kind: "SESSION", then ASK or [ASK] for those that answer one, then the text
	short string
	turn  bool // --turn names a turn
}

// controlCommands are what a person can ask of an executor.
var controlCommands = []controlCommand{
	{wire.ControlSend, "SESSION TEXT...", "Start a new turn (TEXT - reads standard input)", false},
	{wire.ControlAnswer, "SESSION ASK TEXT...", "Answer an ask, with an option or in your own words", false},
	{wire.ControlApprove, "SESSION [ASK] [TEXT...]", "Allow what an ask asks for (without ASK: the one that is open)", false},
	{wire.ControlDeny, "SESSION [ASK] [TEXT...]", "Refuse what an ask asks for (without ASK: the one that is open)", false},
	{wire.ControlCancel, "SESSION", "Cancel the turn that runs", true},
	{wire.ControlSteer, "SESSION TEXT...", "Say something to the turn that runs", true},
	{wire.ControlInject, "SESSION TEXT...", "Add text to the next call of the model", true},
	{wire.ControlPause, "SESSION", "Pause before the next step", true},
	{wire.ControlResume, "SESSION", "Go on after a pause", true},
}

// command makes the command that sends c.
func (c controlCommand) command(a *app) *cobra.Command {
	var id, turn string
	cmd := &cobra.Command{Use: string(c.kind) + " " + c.use, Short: c.short, Args: fits}
	idFlag(cmd, &id)
	if c.turn {
		cmd.Flags().StringVar(&turn, "turn", "", "the turn `ID` (default: the one that runs)")
	}
	cmd.RunE = a.asking(func(ctx context.Context, to *client.Client, args []string) error {
		sent := wire.IncomingControl{ID: id, Kind: c.kind, TurnID: given(turn)}
		named, rest := c.ask(args[1:])
		text, err := a.text(rest)
		if err != nil {
			return err
		}
		sent.Text = given(text)
		said := string(c.kind)
		if c.answers() {
			chosen, title, err := a.whichAsk(ctx, to, args[0], named, id)
			if err != nil {
				return err
			}
			if named == "" {
				said += " of " + chosen + ", " + strconv.Quote(title) + ","
			}
			sent.AskID = &chosen
		}
		if sent.ID == "" {
			sent.ID = a.env.NewID() // before the first attempt: every attempt carries the same one
		}
		receipt, err := to.SendControl(ctx, args[0], sent)
		if err != nil && c.kind == wire.ControlSend {
			return orCreate(args[0], err)
		}
		if err != nil {
			return err
		}
		return a.show(controlAnswer{sent.ID, sent.AskID, receipt}, func() error {
			return a.sayControl(said, sent.ID, receipt, func() bool { return nobodyExecutes(ctx, to, args[0]) })
		})
	})
	return cmd
}

// sayControl says what became of a control, which is called what said says.
func (a *app) sayControl(said, id string, receipt wire.ControlReceipt, waits func() bool) error {
	switch {
	case receipt.Duplicate:
		return a.say("%s was sent before, as event %d; what it said first stands", id, receipt.Seq)
	case waits():
		return a.say("%s is event %d; no executor now: it waits for one", said, receipt.Seq)
	default:
		return a.say("%s is event %d", said, receipt.Seq)
	}
}

// answers is true for what answers an ask.
func (c controlCommand) answers() bool { return strings.Contains(c.use, "ASK") }

// ask takes the ask from the arguments after the session, "" when there is none.
func (c controlCommand) ask(args []string) (ask string, rest []string) {
	if !c.answers() || len(args) == 0 {
		return "", args
	}
	return args[0], args[1:]
}

// nobodyExecutes is true when it is known that no device executes the session. Not to know is no failure: the
// control is stored.
func nobodyExecutes(ctx context.Context, to *client.Client, ref string) bool {
	detail, err := to.GetSession(ctx, ref)
	return err == nil && detail.Lease == nil
}

type controlAnswer struct {
	ControlID string  `json:"control_id"`
	AskID     *string `json:"ask_id,omitempty"` // also when it was not named
	wire.ControlReceipt
}

func idFlag(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "id", "", "control `ID`: the same one again is the same wish (default: a new one)")
}

// given answers nil for what was not given.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// text joins words, or reads standard input when they are a single dash.
func (a *app) text(words []string) (string, error) {
	if len(words) != 1 || words[0] != "-" {
		return strings.Join(words, " "), nil
	}
	const most = wire.MaxText*utf8.UTFMax + 1
	content, err := io.ReadAll(io.LimitReader(a.in, most))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	text := strings.TrimRight(string(content), "\r\n")
	switch {
	case text == "":
		return "", wrongUsage("standard input is empty")
	case utf8.RuneCountInString(text) > wire.MaxText:
		return "", wrongUsage("standard input has more than %d characters", wire.MaxText)
	default:
		return text, nil
	}
}
