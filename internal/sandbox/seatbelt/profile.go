package seatbelt

import (
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/seal"
)

// maxProfile is the longest profile: a longer one takes the kernel too long.
const maxProfile = 4 << 20

// loopback is the proxy's address as variables have it.
func loopback(port uint16) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
}

// terminal is the form of a terminal's path.
var terminal = regexp.MustCompile(`^/dev/ttys[0-9]{1,6}$`)

// writer collects rules. Its error is the first fault.
type writer struct {
	b   strings.Builder
	err error
}

// say writes a line of the package's own text.
func (w *writer) say(line string) { w.b.WriteString(line + "\n") }

// rule writes "(action operations filter filter …)". Filters are made by the functions below. A
// rule without any would hold for everything, so none is written.
func (w *writer) rule(head string, filters ...string) {
	if len(filters) == 0 {
		return
	}
	w.say("(" + head)
	for _, f := range filters {
		w.say("  " + f)
	}
	w.say(")")
}

// filter writes a filter of paths.
func (w *writer) filter(kind, p string) string {
	q, err := quote(p)
	if err == nil && !clean(p) && p != "/" {
		err = palyra.Errorf(palyra.Invalid, palyra.ReasonPathInvalid, "%q is not a whole path", palyra.Clip(p, 256))
	}
	if err != nil && w.err == nil {
		w.err = err
	}
	return "(" + kind + " " + q + ")"
}

func (w *writer) filters(kind string, paths ...string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, w.filter(kind, p))
	}
	return out
}

// profile writes down what a job may do. The last matching rule counts; without one access is denied.
func profile(j sandbox.Job, p place) (string, error) {
	names, err := parseNames(j.Seals)
	if err != nil {
		return "", err
	}
	w := &writer{}
	w.say("(version 1)")
	w.say("(deny default)")
	w.say("(deny process-info*)") // the default does not cover it
	w.say("(deny file-link)")     // a second name would not be sealed
	w.processes(j, p)
	w.services()
	w.reading(j, p)
	w.writing(j, p)
	w.network(j, p)
	w.sealing(j, p, names.Rules())
	w.keeping(j, p)
	if w.err == nil && w.b.Len() > maxProfile {
		w.err = palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "the sandbox profile would be longer than %d MiB", maxProfile>>20).
			WithRemedy("seal fewer names, or use a smaller workspace")
	}
	if w.err != nil {
		return "", w.err
	}
	return w.b.String(), nil
}

func (w *writer) processes(j sandbox.Job, p place) {
	w.say("(allow signal (target same-sandbox))")
	w.say("(allow process-info* (target same-sandbox))")
	if j.Limits.Processes != 1 {
		w.say("(allow process-fork)")
	}
	dirs := append(slices.Clone(programs), j.Workspace, p.root)
	for _, m := range j.Mounts {
		dirs = append(dirs, p.real(m))
	}
	w.rule("allow process-exec", w.filters("subpath", dirs...)...)
}

func (w *writer) services() {
	w.say("(allow sysctl-read)")
	var names []string
	for _, s := range machServices {
		names = append(names, `(global-name "`+s+`")`)
	}
	w.rule("allow mach-lookup", names...)
	w.rule("allow ipc-posix-shm-read-data", `(ipc-posix-name "apple.shm.notification_center")`)
}

func (w *writer) reading(j sandbox.Job, p place) {
	w.rule("allow file-read-data", w.filter("literal", "/")) // the loader opens it
	w.rule("allow file-read*", w.filters("subpath", slices.Concat(programs, systemTrees)...)...)
	w.rule("allow file-read*", w.filters("literal", systemFiles...)...)
	w.rule("deny file-read*", w.filters("subpath", foreignData...)...)
	own := []string{j.Workspace, p.root}
	for _, m := range j.Mounts {
		own = append(own, p.real(m))
	}
	w.rule("allow file-read*", w.filters("subpath", own...)...)
	w.rule("allow file-read-metadata", w.filters("literal", ancestors(own...)...)...)
	w.rule("allow file-read* file-write-data file-ioctl", w.filters("literal", devices...)...)
	if p.tty != "" {
		if !terminal.MatchString(p.tty) {
			w.err = spawnFailed("%q is not a terminal of the run's own", palyra.Clip(p.tty, 64))
		}
		w.rule("allow file-read* file-write-data file-ioctl", w.filters("literal", "/dev/tty", p.tty)...)
	}
}

func (w *writer) writing(j sandbox.Job, p place) {
	dirs := []string{j.Workspace, p.home(), p.tmp()}
	for _, m := range j.Mounts {
		if m.Writable {
			dirs = append(dirs, p.real(m))
		}
	}
	w.rule("allow file-write*", w.filters("subpath", dirs...)...)
	w.rule("deny file-write-unlink file-write-setugid", w.filters("literal", dirs...)...) // they stay where they are
	w.rule("deny file-write-setugid", w.filters("subpath", dirs...)...)
}

func (w *writer) network(j sandbox.Job, p place) {
	if p.proxy != 0 {
		w.rule("allow network-outbound", fmt.Sprintf(`(remote tcp "localhost:%d")`, p.proxy))
	}
	if !j.Unix {
		return
	}
	var there, here []string
	for _, f := range w.filters("subpath", j.Workspace, p.home(), p.tmp()) {
		there, here = append(there, "(remote unix-socket "+f+")"), append(here, "(local unix-socket "+f+")")
	}
	w.rule("allow network-outbound", there...)
	w.rule("allow network-bind network-inbound", here...)
}

// sealing denies writing to sealed paths: by name wherever they may appear in the workspace, and by
// path those that exist.
func (w *writer) sealing(j sandbox.Job, p place, rules []seal.Rule) {
	all, outside := expressions(rules)
	if slices.ContainsFunc(strings.Split(j.Workspace, "/"), func(part string) bool { return seal.Fold(part) == modules }) {
		all, outside = slices.Concat(all, outside), nil
	}
	in := w.filter("subpath", j.Workspace)
	if len(all) > 0 {
		w.rule("deny file-write*", "(require-all "+in+" "+anyOf(all)+")")
	}
	if len(outside) > 0 {
		below := `(require-not (regex #"/` + folded(modules) + `/"))`
		w.rule("deny file-write*", "(require-all "+in+" "+below+" "+anyOf(outside)+")")
	}
	for _, m := range p.marks {
		at := j.Workspace + "/" + m.Path
		switch {
		case m.Path == whole: // it stays in any case
		case m.Keep:
			w.rule("deny file-write*", w.filter("literal", at))
		default:
			w.rule("deny file-write*", w.filter("subpath", at))
		}
	}
	for _, d := range p.pins {
		w.rule("deny file-write-unlink", w.filter("literal", j.Workspace+"/"+d))
	}
}

// anyOf is a filter for paths that match one of the expressions.
func anyOf(expressions []string) string {
	return `(require-any (regex #"` + strings.Join(expressions, `") (regex #"`) + `"))`
}

// keeping denies writing to the daemon's files in the place.
func (w *writer) keeping(j sandbox.Job, p place) {
	kept := []string{p.root, p.profile()}
	for _, f := range j.Files {
		kept = append(kept, p.inHome(f.Target))
	}
	for _, link := range slices.Sorted(mapKeys(p.links(j))) {
		kept = append(kept, p.home()+"/"+link)
	}
	w.rule("deny file-write*", w.filters("literal", kept...)...)
	w.rule("deny file-write*", w.filter("subpath", p.exe()))
}

// ancestors returns the directories above paths, once each: programs read them to find out where they are.
func ancestors(paths ...string) []string {
	var out []string
	for _, p := range paths {
		for d := path.Dir(p); d != "/" && d != "."; d = path.Dir(d) {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return append([]string{"/"}, slices.Compact(out)...)
}
