package imports

import (
	"fmt"
	"strings"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// author is who somebody of the source is here.
type author struct {
	id   string
	kind wire.Kind
}

// named is somebody of the source, as the batch names it.
type named struct{ source, name, email string }

// names lists whom the fresh messages name, each once; the first mention with an e-mail address counts.
func names(fresh []*wire.ImportMessage) []named {
	var all []named
	at := map[string]int{}
	add := func(n named) {
		if i, seen := at[n.source]; seen {
			if all[i].email == "" {
				all[i].email = n.email
			}
			if all[i].name == "" {
				all[i].name = n.name
			}
			return
		}
		at[n.source] = len(all)
		all = append(all, n)
	}
	for _, m := range fresh {
		add(named{m.AuthorSourceID, m.AuthorName, m.AuthorEmail})
		for _, r := range m.Reactions {
			add(named{r.AuthorSourceID, r.AuthorName, r.AuthorEmail})
		}
	}
	return all
}

// findAuthors finds or makes a principal for everybody the fresh messages name.
func (s *Service) findAuthors(a *application, fresh []*wire.ImportMessage) error {
	all := names(fresh)
	ids := make([]string, len(all))
	for i, n := range all {
		ids[i] = n.source
	}
	a.authors = make(map[string]author, len(all))
	err := a.tx.Query(
		`SELECT x.source_id, p.id, p.kind FROM import_authors x JOIN principals p ON p.id = x.principal_id
		  WHERE x.import_id = $1 AND x.source_id = ANY($2)`, []any{a.imported.ID, ids}, func(row storage.Row) error {
			var source string
			var known author
			err := row.Scan(&source, &known.id, &known.kind)
			a.authors[source] = known
			return err
		})
	if err != nil {
		return fmt.Errorf("read authors of an import: %w", err)
	}
	for _, n := range all {
		if _, known := a.authors[n.source]; known {
			continue
		}
		found, err := s.newAuthor(a, n)
		if err != nil {
			return err
		}
		a.authors[n.source] = found
	}
	return nil
}

// newAuthor joins somebody to the person with that e-mail address, or makes a principal that never acts. A
// person whom the caller does not see is nobody: whose address it is would be found out, and what the import
// says put into that person's mouth.
func (s *Service) newAuthor(a *application, n named) (author, error) {
	found, err := a.personOf(n.email)
	if err != nil {
		return found, err
	}
	if found.id == "" {
		found = author{id: s.Env.NewID(), kind: wire.KindUser}
		if err := a.placeholder(found.id, n); err != nil {
			return found, err
		}
	}
	err = a.tx.Exec(`INSERT INTO import_authors (import_id, source_id, principal_id) VALUES ($1, $2, $3)`, a.imported.ID, n.source, found.id)
	if err != nil {
		return found, fmt.Errorf("write author of an import: %w", err)
	}
	return found, nil
}

// personOf answers the person with an e-mail address among those whom the caller sees; the zero value for none.
func (a *application) personOf(email string) (author, error) {
	var found author
	if email == "" {
		return found, nil
	}
	_, err := a.tx.Get(
		`SELECT p.id, p.kind FROM users u JOIN principals p ON p.id = u.id WHERE lower(u.email) = lower($1) ORDER BY p.id LIMIT 1`,
		[]any{email}, &found.id, &found.kind)
	if err != nil {
		return found, fmt.Errorf("look for person of an author: %w", err)
	}
	if found.id == "" {
		return found, nil
	}
	seen, err := authz.SeesPrincipal(a.tx, a.by, found.id)
	if err != nil || !seen {
		return author{}, err
	}
	return found, nil
}

// placeholder makes a principal for an author nobody knows. It is disabled, so that nobody signs in as it.
func (a *application) placeholder(id string, n named) error {
	name := strings.TrimSpace(n.name)
	if name == "" {
		name = n.source
	}
	err := a.tx.Exec(
		`INSERT INTO principals (id, kind, handle, display_name, status, source, source_id, import_id, created_at)
		 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		id, wire.KindUser, handle(name, id), name, wire.StatusDisabled, a.imported.Source, n.source, a.imported.ID, a.tx.Now())
	if err != nil {
		return fmt.Errorf("write placeholder of an author: %w", err)
	}
	return nil
}

// handle makes a handle that says who it is and is nobody else's: of the name, and of the end of the id.
func handle(name, id string) string {
	const readable, random = 18, 12
	var slug strings.Builder
	for _, r := range strings.ToLower(name) {
		if slug.Len() == readable {
			break
		}
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			slug.WriteRune(r)
		}
	}
	if slug.Len() == 0 {
		slug.WriteString("imported")
	}
	return slug.String() + "-" + id[len(id)-random:]
}
