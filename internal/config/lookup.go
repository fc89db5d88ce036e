package config

import "strings"

func lookup(key string) (setting, bool) {
	for _, row := range table {
		if row.key == key {
			return row, true
		}
	}
	return setting{}, false
}

func lookupEnv(name string) (setting, bool) {
	for _, row := range table {
		if EnvName(row.key) == name {
			return row, true
		}
	}
	return setting{}, false
}

// EnvName answers the environment variable of a key: CAIRN_HTTP_MAX_BODY_BYTES for http.max_body_bytes.
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Keys lists every key in the order of the table.
func Keys() []string {
	all := make([]string, len(table))
	for i, row := range table {
		all[i] = row.key
	}
	return all
}

func envNames() []string {
	all := Keys()
	for i, key := range all {
		all[i] = EnvName(key)
	}
	return all
}

// isSection is true for the part before a dot of some key.
func isSection(key string) bool {
	for _, row := range table {
		if strings.HasPrefix(row.key, key+".") {
			return true
		}
	}
	return false
}

// nearest answers the candidate that name most likely meant, or "" when none is close: one that ends
// with it as a part, or the one with the fewest edits, at most a third of its length.
func nearest(name string, candidates []string) string {
	best, fewest := "", len(name)/3+1
	for _, candidate := range candidates {
		if strings.HasSuffix(candidate, "."+name) {
			return candidate
		}
		if edits := distance(strings.ToLower(name), strings.ToLower(candidate)); edits < fewest {
			best, fewest = candidate, edits
		}
	}
	return best
}

// distance is the number of single-byte insertions, deletions and replacements between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, cost)
		}
	}
	return row[len(b)]
}
