package bubble

import (
	"net/netip"
	"reflect"
	"testing"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cage"
)

// furnish gives a value another content than none; false: it cannot be.
func furnish(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		furnish(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[netip.AddrPort]() {
			v.Set(reflect.ValueOf(netip.MustParseAddrPort("1.2.3.4:5")))
			return true
		}
		for i := range v.NumField() {
			furnish(v.Field(i))
		}
	case reflect.Pointer:
		if v.Type() != reflect.TypeFor[*cage.Cage]() {
			return false
		}
		v.Set(reflect.ValueOf(&cage.Cage{}))
	default:
		return false
	}
	return true
}

// Whatever of a job decides about its room is compared before a room for another one serves: each field by itself, and
// each part of it.
func TestEverythingThatIsWantedIsCompared(t *testing.T) {
	b := &Backend{config: Config{Tmp: 1, Stages: "/stages"}}
	base := sandbox.Job{UID: 1, GID: 1, Workspace: "/w", Seals: []string{"a", "b"}}
	was, decide := b.want(base), 0
	if first, second := b.wantLike(base), b.wantLike(base); !was.same(base) || first != second {
		t.Fatal("the same job wants something else")
	}
	each := func(name string, job sandbox.Job) {
		if is := b.want(job); is.key != was.key || !reflect.DeepEqual(is, was) {
			decide++
			if was.same(job) {
				t.Errorf("%s is not compared", name)
			}
		}
	}
	all := reflect.TypeFor[sandbox.Job]()
	for i := range all.NumField() {
		job := base
		f := reflect.ValueOf(&job).Elem().Field(i)
		if !furnish(f) {
			continue
		}
		each(all.Field(i).Name, job)
		if f.Kind() != reflect.Slice || f.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for n := range f.Type().Elem().NumField() { // of two that differ in one part
			one, other := base, base
			element := reflect.New(f.Type().Elem()).Elem()
			reflect.ValueOf(&one).Elem().Field(i).Set(reflect.Append(reflect.Zero(f.Type()), element))
			if !furnish(element.Field(n)) {
				continue
			}
			reflect.ValueOf(&other).Elem().Field(i).Set(reflect.Append(reflect.Zero(f.Type()), element))
			if x, y := b.want(one), b.want(other); !reflect.DeepEqual(x, y) && x.same(other) {
				t.Errorf("%s.%s is not compared", all.Field(i).Name, f.Type().Elem().Field(n).Name)
			}
		}
	}
	if decide < 12 {
		t.Errorf("only %d fields decide", decide)
	}
}
