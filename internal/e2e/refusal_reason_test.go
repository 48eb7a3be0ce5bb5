//go:build linux

package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"palyra"
)

// noChange are the reasons for which there may be nothing to change but the call
// itself, or nothing at all: no policy, setting, grant or answer would let it pass.
// Where why still finds something (a limit that is asked too much of, a tool that
// waits to be looked at), the table has it as well.
var noChange = map[palyra.Reason]string{
	palyra.ReasonMalformedInput:     "what was sent cannot be understood; only limits that are asked too much of can be raised",
	palyra.ReasonSchemaMismatch:     "the arguments are not those of the tool",
	palyra.ReasonInputTooLarge:      "a bound of the tool itself, which nobody can set",
	palyra.ReasonPortDenied:         "another port, or none, is for the caller to choose",
	palyra.ReasonUnknownTool:        "there is no such tool; only one of an MCP server may wait to be approved",
	palyra.ReasonPathOutside:        "a call reaches nothing outside its workspace, whatever is set",
	palyra.ReasonPathInvalid:        "the path names nothing that could be opened safely",
	palyra.ReasonNotRegularFile:     "there is something else than a file",
	palyra.ReasonFileNotFound:       "there is no such file or program",
	palyra.ReasonFileTooLarge:       "a bound of the tool itself, which nobody can set",
	palyra.ReasonPatchMismatch:      "the patch does not fit the file",
	palyra.ReasonExists:             "there is such a file already, and the call asks for a new one",
	palyra.ReasonNotExecutable:      "the file is no program that can be run here",
	palyra.ReasonWorkspaceDenied:    "the directory is not one that work may be done in for this user, whatever is set",
	palyra.ReasonPermission:         "the system, or Palyra for what only Palyra itself proposes, says no",
	palyra.ReasonNotFound:           "what is asked for is not there: an artifact, a host",
	palyra.ReasonUnsupported:        "this system, or this version, cannot do it",
	palyra.ReasonCancelled:          "whoever proposed it gave up, perhaps before there was a plan",
	palyra.ReasonFetchFailed:        "the other side failed",
	palyra.ReasonBusy:               "other calls hold the memory that there is for planning; a later try passes",
	palyra.ReasonUpstreamFailed:     "the MCP server failed",
	palyra.ReasonSpawnFailed:        "the machine could not start it; the daemon's log says why",
	palyra.ReasonDiskFull:           "the machine has no space",
	palyra.ReasonUnsafePermissions:  "a directory of Palyra's own is not safe; a person must see who opened it",
	palyra.ReasonJournalUnavailable: "nothing is let pass that cannot be put on record",
	palyra.ReasonSealDenied:         "some names no profile leaves open, hooks of git among them; others one does, which the table has",
	palyra.ReasonInputChanged: "somebody changed what the program reads while it ran; it is run again, or where it has a copy " +
		"of its own",
	palyra.ReasonEffectsConflict: "somebody changed the same files while the program ran; it is run again",
	palyra.ReasonEffectsLost:     "what the program changed is more than is kept, or could not be read or written",
	palyra.ReasonEffectsDropped:  "policy or a person did not want what the run changed; another run is judged anew",
	palyra.ReasonSessionClosed: "another call closed the session first; a unit test has it, a moment of the database that no test " +
		"can hit at will",
	palyra.ReasonAlreadyDecided: "as above: somebody settled the question in the same moment",
	palyra.ReasonInternal:       "a defect of Palyra's own, or something it could not find out: it fails closed",
	palyra.ReasonConfig:         "of policies of a workspace that cannot be read; calls are told policy_error",
}

// ofOthers are reasons that the parts on a call's way use too, and that are never
// what a call is refused by.
var ofOthers = map[palyra.Reason]string{
	palyra.ReasonAgentMayNotDecide: "of an answer", palyra.ReasonRequesterDecides: "of an answer",
	palyra.ReasonStaleDigest:       "of an answer, or of an approval of a tool",
	palyra.ReasonSignatureRequired: "of an answer", palyra.ReasonIdempotencyReused: "of a door: no call is made",
	palyra.ReasonRateLimited: "of a door: no call is made",
	palyra.ReasonRunEnded:    "of what is said to a call that has ended", palyra.ReasonVerifyFailed: "of what was kept",
	palyra.ReasonSecondDaemon: "of a start", palyra.ReasonSignatureRefused: "of a request that a running program sends",
}

// onTheWay are the packages that a call passes.
var onTheWay = []string{
	"gate", "catalog", "plan", "policy", "approval", "sandbox", "tool", "egress", "limit", "run", "workspace", "seal", "profile",
	"mcp/upstream", "store",
}

// reasons reads the reason codes out of the source, by the name of their constant.
func reasons(t *testing.T) map[string]palyra.Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "errors.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]palyra.Reason{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		kind, _ := spec.Type.(*ast.Ident)
		text, _ := spec.Values[0].(*ast.BasicLit)
		if kind == nil || kind.Name != "Reason" || text == nil {
			return true
		}
		value, err := strconv.Unquote(text.Value)
		if err != nil {
			t.Fatal(err)
		}
		all[spec.Names[0].Name] = palyra.Reason(value)
		return true
	})
	if len(all) < 90 {
		t.Fatalf("%d reasons: not all were found", len(all))
	}
	return all
}

// usedOnTheWay are the constants of reasons that the packages of a call's way name.
func usedOnTheWay(t *testing.T) map[string]string {
	t.Helper()
	used := map[string]string{}
	for _, dir := range onTheWay {
		err := filepath.WalkDir(filepath.Join("..", filepath.FromSlash(dir)), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Reason") {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "palyra" {
						used[s.Sel.Name] = path
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return used
}

// Every reason that a call can be refused by has a row that turns it, or stands in
// the list of those for which there may be nothing to change. A new reason, or an
// old one in a new place, fails here until somebody has said which it is.
func TestEveryReasonIsTurned(t *testing.T) {
	all, turned := reasons(t), map[palyra.Reason]int{}
	for _, c := range refusals {
		turned[c.reason]++
	}
	used := usedOnTheWay(t)
	counted := map[string]int{}
	for name, path := range used {
		r, known := all[name]
		_, hopeless := noChange[r]
		_, other := ofOthers[r]
		switch {
		case name == "Reason": // the type
		case !known:
			t.Errorf("%s of %s is no reason of the list", name, path)
		case other && (turned[r] > 0 || hopeless):
			t.Errorf("%s is that of a call after all", name)
		case other:
			counted["of others"]++
		case turned[r] > 0:
			counted["turned"]++
		case hopeless:
			counted["no change"]++
		default:
			t.Errorf("a call can be refused by %s (%s), and nobody says what would turn that: add a row to refusals, or to noChange why "+
				"nothing can", name, path)
		}
	}
	for _, r := range slices.Concat(slices.Collect(maps.Keys(noChange)), slices.Collect(maps.Keys(ofOthers)),
		slices.Collect(maps.Keys(turned))) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(used)), func(name string) bool { return all[name] == r }) {
			t.Errorf("%s is listed, and no part on a call's way names it", r)
		}
	}
	t.Logf("%d reasons, %d on a call's way: %v; %d rows", len(all), len(used)-1, counted, len(refusals))
}
