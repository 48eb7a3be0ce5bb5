package palyra_test

import (
	"go/ast"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra"
	"palyra/internal/canon"
)

type (
	typ   = reflect.Type
	field = reflect.StructField
)

func typeOf[T any]() typ { return reflect.TypeFor[T]() }

func TestKindsAreUniqueAndNamedAlike(t *testing.T) {
	form := regexp.MustCompile(`^[a-z]+\.[a-z]+$`)
	seen := map[string]bool{}
	for _, e := range palyra.Catalogue() {
		if !form.MatchString(e.Kind()) {
			t.Errorf("%T is called %q", e, e.Kind())
		}
		if seen[e.Kind()] {
			t.Errorf("%q twice", e.Kind())
		}
		seen[e.Kind()] = true
	}
}

// An event that is not in the catalogue could be journaled and never read back.
func TestTheCatalogueIsComplete(t *testing.T) {
	var listed []string
	for _, e := range palyra.Catalogue() {
		listed = append(listed, reflect.TypeOf(e).Name())
	}
	found := 0
	for _, f := range sources(t) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Name.Name != "Kind" || fn.Type.Results == nil {
				continue
			}
			name := fn.Recv.List[0].Type.(*ast.Ident).Name
			if name == "Principal" { // a principal's kind is another thing
				continue
			}
			found++
			if !slices.Contains(listed, name) {
				t.Errorf("%s is not in the catalogue", name)
			}
		}
	}
	if found != len(listed) {
		t.Errorf("%d events declared, %d listed", found, len(listed))
	}
}

// Every event, empty and full, has canonical bytes and comes back from them
// without loss; what is not journaled is left out.
func TestEventsSurviveTheJournal(t *testing.T) {
	for _, e := range palyra.Catalogue() {
		for _, full := range []bool{false, true} {
			in := reflect.New(reflect.TypeOf(e))
			if n := 0; full {
				fill(t, in.Elem(), &n)
			}
			b, err := canon.Marshal(in.Interface())
			if err != nil {
				t.Errorf("%s: %v", e.Kind(), err)
				continue
			}
			out := reflect.New(reflect.TypeOf(e)).Interface()
			if err := canon.Unmarshal(b, out); err != nil {
				t.Errorf("%s: %v", e.Kind(), err)
				continue
			}
			if d := cmp.Diff(in.Interface(), out, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s (full: %t) lost something: %s", e.Kind(), full, d)
			}
		}
	}
}

func TestRecordsThatTravelAlongAreNotJournaled(t *testing.T) {
	plain, err := canon.Marshal(palyra.CallFinished{Call: "C"})
	if err != nil {
		t.Fatal(err)
	}
	laden, err := canon.Marshal(palyra.CallFinished{Call: "C", Signed: filled[palyra.Attestation](t)})
	if err != nil || string(plain) != string(laden) {
		t.Errorf("the attestation is in the line: %q, %v", laden, err)
	}
	plain, _ = canon.Marshal(palyra.ApprovalRequested{Call: "C"})
	laden, err = canon.Marshal(palyra.ApprovalRequested{Call: "C", Record: filled[palyra.Approval](t)})
	if err != nil || string(plain) != string(laden) {
		t.Errorf("the question is in the line: %q, %v", laden, err)
	}
}

// Every field of every event is in the bytes that are hashed.
func TestEveryFieldOfEveryEventCounts(t *testing.T) {
	for _, e := range palyra.Catalogue() {
		v := reflect.New(reflect.TypeOf(e)).Elem()
		n := 0
		fill(t, v, &n)
		base, err := canon.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		mutate(t, e.Kind(), v, func(path string) {
			tried++
			if b, err := canon.Marshal(v.Interface()); err != nil || string(b) == string(base) {
				t.Errorf("%s does not count (%v)", path, err)
			}
		})
		if tried == 0 {
			t.Errorf("%s has no field", e.Kind())
		}
	}
}

// JSON names are snake_case everywhere but in the DSSE envelope, whose names
// are not ours.
func TestJSONNamesAreSnakeCase(t *testing.T) {
	seen := map[typ]bool{typeOf[palyra.Envelope](): true}
	check := func(in typ, f field, name string) {
		if !snake.MatchString(name) {
			t.Errorf("%s.%s is called %q", in.Name(), f.Name, name)
		}
	}
	for _, e := range palyra.Catalogue() {
		tags(reflect.TypeOf(e), seen, check)
	}
	for _, w := range []typ{
		typeOf[palyra.Outcome](), typeOf[palyra.Call](), typeOf[palyra.Approval](), typeOf[palyra.Lease](), typeOf[palyra.Predicate](),
		typeOf[palyra.Attestation](), typeOf[palyra.Tool](), typeOf[palyra.Session](), typeOf[palyra.Snapshot](), typeOf[palyra.Entry](),
		typeOf[palyra.Refusal](), typeOf[palyra.Verdict](), typeOf[palyra.Position](),
	} {
		tags(w, seen, check)
	}
	if len(seen) < 40 {
		t.Errorf("only %d types were seen", len(seen))
	}
}

// A time in a record must come back as the same moment and the same text.
func TestTimesKeepNanoseconds(t *testing.T) {
	in := palyra.GrantCreated{Expires: time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)}
	b, err := canon.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out palyra.GrantCreated
	if err := canon.Unmarshal(b, &out); err != nil || !out.Expires.Equal(in.Expires) {
		t.Errorf("%v, %v", out.Expires, err)
	}
}
