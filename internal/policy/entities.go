package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// members are the teams and roles that a bundle puts principals into, beside
// the roles that the access registry knows.
type members map[cedar.EntityUID][]cedar.EntityUID

// Limits of entities.json.
const (
	maxEntities = 10_000
	maxParents  = 64
	maxName     = 256
)

// entityName and entityLine are entities.json, which is Cedar's own form cut down to memberships. It has no
// attributes: the daemon fills those in from what it knows, and a bundle must not contradict it.
type entityName struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

type entityLine struct {
	UID     entityName                 `json:"uid"`
	Attrs   map[string]json.RawMessage `json:"attrs"`
	Parents []entityName               `json:"parents"`
}

// readEntities reads entities.json; an empty text has no members.
func readEntities(text string) (members, []Problem) {
	if text == "" {
		return nil, nil
	}
	r := entityReader{text: text, dec: json.NewDecoder(strings.NewReader(text)), out: members{}}
	r.dec.DisallowUnknownFields()
	r.list()
	return r.out, r.problems
}

type entityReader struct {
	text     string
	dec      *json.Decoder
	out      members
	problems []Problem
}

// fail notes a problem at a byte of the text.
func (r *entityReader) fail(offset int, format string, args ...any) {
	c := scanner{src: r.text, line: 1, column: 1}
	c.skip(min(max(offset, 0), len(r.text)))
	r.problems = append(r.problems, Problem{File: entitiesFile, Line: c.line, Column: c.column, Text: fmt.Sprintf(format, args...)})
}

// list reads the array, and refuses anything that follows it.
func (r *entityReader) list() {
	if t, err := r.dec.Token(); err != nil || t != json.Delim('[') {
		r.fail(0, "not a list of entities: [{\"uid\":{\"type\":\"User\",\"id\":\"ada\"},\"parents\":[{\"type\":\"Team\",\"id\":\"web\"}]}]")
		return
	}
	for r.dec.More() {
		at := r.start()
		var e entityLine
		if err := r.dec.Decode(&e); err != nil {
			r.fail(r.place(err, at), "%s", palyra.Clip(err.Error(), 200))
			return
		}
		r.add(e, at)
		if len(r.problems) >= shown {
			return
		}
		if len(r.out) > maxEntities {
			r.fail(at, "more than %d entities", maxEntities)
			return
		}
	}
	if _, err := r.dec.Token(); err != nil {
		r.fail(int(r.dec.InputOffset()), "the list does not end: %s", palyra.Clip(err.Error(), 200))
		return
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		r.fail(int(r.dec.InputOffset()), "something follows the list")
	}
}

// start is where the next entity begins.
func (r *entityReader) start() int {
	at := int(r.dec.InputOffset())
	for at < len(r.text) && strings.ContainsRune(", \t\r\n", rune(r.text[at])) {
		at++
	}
	return at
}

// place is where the text stops being JSON, if that was the error; else at, where the entity begins.
func (r *entityReader) place(err error, at int) int {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && errors.As(json.Unmarshal([]byte(r.text), new(any)), &syntax) { // a decoder counts from somewhere else
		return int(syntax.Offset) - 1
	}
	return at
}

func (r *entityReader) add(e entityLine, at int) {
	uid, why := e.UID.entity()
	switch {
	case why != "":
		r.fail(at, "%s", why)
		return
	case len(e.Attrs) > 0:
		r.fail(at, "%s has attributes: only memberships can be given, Palyra fills in the rest", uid)
		return
	case len(e.Parents) > maxParents:
		r.fail(at, "%s is in more than %d teams and roles", uid, maxParents)
		return
	}
	if _, twice := r.out[uid]; twice {
		r.fail(at, "%s stands twice", uid)
		return
	}
	var in []cedar.EntityUID
	for _, p := range e.Parents {
		parent, why := p.entity()
		if why == "" {
			why = mayJoin(uid, parent)
		}
		if why != "" {
			r.fail(at, "%s", why)
			return
		}
		in = append(in, parent)
	}
	r.out[uid] = in
}

// entity checks a name.
func (n entityName) entity() (cedar.EntityUID, string) {
	switch n.Type {
	case "User", "Agent", "Device", "Service", "Team", "Role":
	default:
		return cedar.EntityUID{}, fmt.Sprintf("%q is no type of entity here: User, Agent, Device, Service, Team, Role", palyra.Clip(n.Type, 64))
	}
	if n.ID == "" || len(n.ID) > maxName || strings.ContainsFunc(n.ID, unprintable) {
		return cedar.EntityUID{}, fmt.Sprintf("%q is not a name of at most %d printable bytes", palyra.Clip(n.ID, 64), maxName)
	}
	return cedar.NewEntityUID(cedar.EntityType(n.Type), cedar.String(n.ID)), ""
}

// mayJoin says why an entity cannot be in another. Only people have roles here:
// an agent that were an owner to policy would be one rule away from deciding.
func mayJoin(e, parent cedar.EntityUID) string {
	switch {
	case parent.Type != "Team" && parent.Type != "Role":
		return fmt.Sprintf("%s is not a team or role: nothing can be in it", parent)
	case e.Type == "Team" || e.Type == "Role":
		return fmt.Sprintf("%s cannot be in %s: teams and roles hold principals", e, parent)
	case parent.Type == "Role" && e.Type != "User":
		return fmt.Sprintf("%s cannot be in %s: only a User has a role by the bundle", e, parent)
	}
	return ""
}
