package approval

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/ulid"
)

// cursor is where a page ended: the time and id of its last item, and a tag of the query it belongs to. It is
// opaque to clients, not secret, and every field is checked when it comes back.
type cursor struct {
	at  int64
	id  string
	tag string // 8 hex digits
}

const (
	cursorVersion = "1"
	maxCursor     = 128
)

func (c cursor) String() string {
	text := strings.Join([]string{cursorVersion, c.tag, strconv.FormatInt(c.at, 10), c.id}, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseCursor reads a cursor of the query with the tag. Every accepted text is
// what String writes: there is no second spelling.
func parseCursor(s, tag string) (cursor, error) {
	bad := invalid(palyra.ReasonMalformedInput, "the cursor is not one of this query's").
		WithRemedy("start again without a cursor")
	if len(s) > maxCursor {
		return cursor{}, bad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return cursor{}, bad
	}
	part := strings.Split(string(raw), ".")
	if len(part) != 4 || part[0] != cursorVersion || part[1] != tag || !ulid.Valid(part[3]) {
		return cursor{}, bad
	}
	at, err := strconv.ParseInt(part[2], 10, 64)
	c := cursor{at: at, id: part[3], tag: tag}
	if err != nil || c.String() != s {
		return cursor{}, bad
	}
	return c, nil
}

// tagOf binds a cursor to its query.
func tagOf(kind string, query any) (string, error) {
	d, err := canon.Digest("approval-cursor/v1", map[string]any{"kind": kind, "query": query})
	if err != nil {
		return "", fmt.Errorf("approval: cursor: %w", err)
	}
	return strings.TrimPrefix(d, "sha256:")[:8], nil
}
