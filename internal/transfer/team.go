package transfer

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
)

// sourceOf names an export after the team it is of, which a newer export of the same chat says too, unlike the name of its
// file; an export that does not say it is named after its file.
func sourceOf(s *source, format Format, file string) string {
	const most = 150
	team := s.slackTeam
	if format == Mattermost {
		team = s.mattermostTeam
	}
	if name := clean(team(), most); name != "" {
		return string(format) + ":" + name
	}
	return defaultSource(format, file)
}

// slackTeam is the team of most people of an export: guests of other teams are among them.
func (s *source) slackTeam() string {
	root, err := s.root("users.json")
	if err != nil {
		return ""
	}
	file, err := root.Open("users.json")
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	const mostTeams = 1000
	times, best := map[string]int{}, ""
	count := func(_ int64, u *struct {
		Team string `json:"team_id"`
	},
	) error {
		if _, known := times[u.Team]; u.Team == "" || !known && len(times) == mostTeams {
			return nil
		}
		times[u.Team]++
		if n := times[u.Team]; n > times[best] || n == times[best] && u.Team < best {
			best = u.Team
		}
		return nil
	}
	_ = items(file, count, func(int64, error) {}) // what cannot be read is reported when the people are
	return best
}

// mattermostTeam is the first team of an export, which comes before everything that belongs to it.
func (s *source) mattermostTeam() string {
	name, err := s.jsonl()
	if err != nil {
		return ""
	}
	file, err := s.files.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	const searched = 1000
	enough, team := errors.New("enough"), ""
	_ = lines(file, func(n int64, text []byte) error { // as above
		var line struct {
			Type string `json:"type"`
			Team struct {
				Name string `json:"name"`
			} `json:"team"`
		}
		if err := json.Unmarshal(text, &line, lenient...); err == nil && line.Type == "team" {
			team = line.Team.Name
		}
		if strings.TrimSpace(team) != "" || n >= searched {
			return enough
		}
		return nil
	}, func(int64, error) {})
	return team
}
