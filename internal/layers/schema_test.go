package layers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	triggerBody = regexp.MustCompile(`(?is)\bCREATE\s+TRIGGER\b.*?\bBEGIN\b(.*?)\bEND\b`)
	raisesOnly  = regexp.MustCompile(`(?is)^\s*SELECT\s+RAISE\s*\([^;]*\)\s*;\s*$`)
	cascades    = regexp.MustCompile(`(?i)\bON\s+(DELETE|UPDATE)\s+(CASCADE|SET)\b`)
	sqlComment  = regexp.MustCompile(`(?m)--.*$`)
)

// silentChanges finds what changes a table that no statement of ours names. The store remembers answers until a
// statement names one of their tables (store.Memo), so there must be none.
func silentChanges(name, sql string) (bad []string) {
	sql = sqlComment.ReplaceAllString(sql, "")
	bodies := triggerBody.FindAllStringSubmatch(sql, -1)
	if n := strings.Count(strings.ToUpper(sql), "TRIGGER "); n > len(bodies)+strings.Count(strings.ToUpper(sql), "DROP TRIGGER") {
		bad = append(bad, fmt.Sprintf("%s: a trigger that cannot be read", name))
	}
	for _, b := range bodies {
		if !raisesOnly.MatchString(b[1]) {
			bad = append(bad, fmt.Sprintf("%s: a trigger does more than refuse", name))
		}
	}
	if cascades.MatchString(sql) {
		bad = append(bad, name+": rows of one table change those of another")
	}
	return bad
}

func TestNoTableChangesSilently(t *testing.T) {
	files, err := filepath.Glob("../*/schema/*/*.sql")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d schemas, %v", len(files), err)
	}
	for _, name := range files {
		sql, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range silentChanges(name, string(sql)) {
			t.Error(b)
		}
	}
}

func TestNoTableChangesSilentlyFires(t *testing.T) {
	for sql, bad := range map[string]int{
		"CREATE TRIGGER a BEFORE UPDATE ON b BEGIN SELECT RAISE(ABORT, 'no'); END;":                 0,
		"CREATE TRIGGER a AFTER UPDATE ON b BEGIN UPDATE c SET d=1; END;":                           1,
		"CREATE TRIGGER a AFTER UPDATE ON b BEGIN SELECT RAISE(IGNORE); DELETE FROM c; END;":        1,
		"CREATE TABLE a (b TEXT REFERENCES c(d) ON DELETE CASCADE);":                                1,
		"CREATE TABLE a (b TEXT REFERENCES c(d) on update set null);":                               1,
		"CREATE TABLE a (b TEXT REFERENCES c(d)); -- no ON DELETE CASCADE and no TRIGGER x in here": 0,
		"CREATE TRIGGER a AFTER INSERT ON b EXECUTE FUNCTION c();":                                  1,
		"DROP TRIGGER a;": 0,
	} {
		if got := silentChanges("x", sql); len(got) != bad {
			t.Errorf("%s: %q", sql, got)
		}
	}
}
