package identity

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/cairnsync/cairn/internal/storage"
)

// maxHandle is the longest handle, in bytes.
const maxHandle = 32

// handleForm is what a handle looks like: what follows the @ of a mention.
var handleForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,30}[a-z0-9]$`)

// slug makes a handle of a name: without marks, in lower case, with dashes for what a handle cannot hold.
// Where nothing of the name is left it is "user".
func slug(name string) string {
	var out strings.Builder
	for _, r := range norm.NFKD.String(name) {
		r = unicode.ToLower(r)
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_':
			out.WriteRune(r)
		case unicode.Is(unicode.Mn, r): // the mark of a letter that stays
		case !strings.HasSuffix(out.String(), "-"):
			out.WriteByte('-')
		}
		if out.Len() >= maxHandle {
			break
		}
	}
	handle := strings.Trim(out.String(), "._-")
	if !handleForm.MatchString(handle) {
		handle = strings.Trim("user-"+handle, "-")
	}
	return handle
}

// freeHandle answers base, or base with the first free number behind it: -2, -3, and so on.
func freeHandle(tx storage.Tx, base string) (string, error) {
	stem := strings.TrimRight(base[:min(len(base), maxHandle-len("-999999"))], "._-")
	taken := make(map[string]bool)
	err := tx.Query(`SELECT handle FROM principals WHERE handle = $1 OR substr(handle, 1, $2) = $3`,
		[]any{base, len(stem) + 1, stem + "-"}, func(row storage.Row) error {
			var handle string
			err := row.Scan(&handle)
			taken[handle] = true
			return err
		})
	if err != nil {
		return "", fmt.Errorf("look for handle: %w", err)
	}
	handle := base
	for n := 2; taken[handle]; n++ {
		handle = stem + "-" + strconv.Itoa(n)
	}
	return handle, nil
}
