package resource

import (
	"regexp"
	"strings"
)

// promise is what a plan says of a binding that it uses.
type promise struct {
	kind, place, scope, secret, user string
	hosts                            []string
}

// promisedForm is a mechanism of a binding, behind its name: its kind, place and variable, its secret, and where it goes.
// secrets.BoundMechanisms writes it; no scope has a slash in it there.
var promisedForm = regexp.MustCompile(`^([^:]*):([^:]*):[^:]*:([^/]*)/([^/:]*):([^:]*):` +
	`(` + hostForm + `(?:,` + hostForm + `)*)?(?::.*)?$`)

const hostForm = `(?:\[[^\]]*\]|[^:,\[]*):[0-9]+`

// unslashed is a scope as it is.
var unslashed = strings.NewReplacer("%25", "%", "%2F", "/")

// promised reads out of the mechanisms of a plan which secret a binding is for, and where it goes. What cannot be told
// apart is not told.
func promised(mechanisms []string, name string) (p promise, ok bool) {
	for _, m := range mechanisms {
		rest, is := strings.CutPrefix(m, "binding:"+name+":")
		if !is {
			continue
		}
		w := promisedForm.FindStringSubmatch(rest)
		if w == nil || ok {
			return promise{}, false
		}
		p = promise{kind: w[1], place: w[2], scope: unslashed.Replace(w[3]), secret: w[4], user: w[5]}
		if w[6] != "" {
			p.hosts = strings.Split(w[6], ",")
		}
		ok = true
	}
	return p, ok
}
