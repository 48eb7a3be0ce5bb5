package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// byJSON is what Marshal promises to be: the JSON package's text, read strictly.
func byJSON(v any, mend bool) ([]byte, error) {
	if err := checkText(reflect.ValueOf(v)); err != nil && !mend {
		return nil, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return FromJSON(raw)
}

type colour int

func (c colour) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "colour-%d", int(c)), nil }

type byPointer struct{ N int }

func (p *byPointer) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"p":%d}`, p.N), nil }

type pair struct {
	Left  string `json:"left"`
	Right string `json:"right,omitempty"`
}

type hidden struct {
	Deep int `json:"deep,omitempty"`
	left int
}

type everything struct {
	pair
	hidden
	Bool      bool            `json:"bool"`
	Int       int64           `json:"int,omitempty"`
	Uint      uint64          `json:"uint"`
	Small     int8            `json:"small,omitempty"`
	Text      string          `json:"text"`
	Named     time.Duration   `json:"named,omitzero"`
	Raw       json.RawMessage `json:"raw"`
	RawGone   json.RawMessage `json:"raw_gone,omitempty"`
	Bytes     []byte          `json:"bytes"`
	List      []string        `json:"list"`
	Gone      []pair          `json:"gone,omitempty"`
	Pairs     []pair          `json:"pairs"`
	Pointer   *pair           `json:"pointer"`
	Missing   *pair           `json:"missing,omitempty"`
	Any       any             `json:"any"`
	Map       map[string]pair `json:"map"`
	Numbers   map[int]string  `json:"numbers,omitempty"`
	Time      time.Time       `json:"time,omitzero"`
	Colour    colour          `json:"colour"`
	Colours   []colour        `json:"colours,omitempty"`
	Number    json.Number     `json:"number"`
	Float     float64         `json:"float"`
	Own       byPointer       `json:"own"`
	OwnByItem []byPointer     `json:"own_by_item"`
	Array     [2]byte         `json:"array"`
	Self      *everything     `json:"self,omitempty"`
	Nameless  int
	Skipped   string `json:"-"`
	secret    string
}

// quoted has what only the JSON package knows: numbers in quotes, a field that hides another.
type quoted struct {
	N int `json:"n,string"`
	pair
	Left int `json:"left"`
}

func drawEverything(t *rapid.T, depth int) everything {
	text := rapid.StringMatching(`[a-z<>&é\n"\\ \x{2028}]{0,12}`)
	e := everything{
		pair: pair{text.Draw(t, "left"), text.Draw(t, "right")}, hidden: hidden{rapid.Int().Draw(t, "deep"), 1},
		Bool: rapid.Bool().Draw(t, "bool"), Int: rapid.Int64().Draw(t, "int"), Uint: rapid.Uint64().Draw(t, "uint"),
		Small: rapid.Int8().Draw(t, "small"), Text: text.Draw(t, "text"), Named: time.Duration(rapid.Int64().Draw(t, "named")),
		Raw: json.RawMessage(rapid.SampledFrom([]string{
			`null`, `{}`, `{"b":1.50,"a":[1,2,{"c":"\u00e9"}]}`, `[1e3,-0.0]`, ` "x" `, `9007199254740993`,
		}).Draw(t, "raw")),
		Bytes: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes"), List: rapid.SliceOfN(text, 0, 3).Draw(t, "list"),
		Pairs: []pair{{Left: text.Draw(t, "pair")}},
		Map: rapid.MapOfN(text, rapid.Custom(func(t *rapid.T) pair { return pair{Left: text.Draw(t, "value")} }), 0, 4).
			Draw(t, "map"),
		Numbers: rapid.MapOfN(rapid.Int(), text, 0, 3).Draw(t, "numbers"),
		Time:    time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), 5).UTC(), Colour: colour(rapid.IntRange(0, 9).Draw(t, "colour")),
		Number: json.Number(rapid.SampledFrom([]string{"", "0", "-1.5e3", "100", "1e21", "1e22"}).Draw(t, "number")),
		Float:  rapid.Float64Range(-1e9, 1e9).Draw(t, "float"), OwnByItem: []byPointer{{1}, {2}}, Nameless: 1, Skipped: "x", secret: "x",
	}
	e.Any = rapid.SampledFrom([]any{
		nil, true, "text", 12, 1.5,
		[]any{1, "a", nil},
		map[string]any{"b": json.Number("1.0"), "a": []string{"x"}},
		pair{"l", "r"},
		&pair{},
		quoted{N: 1, Left: 2},
		json.RawMessage(`{"z":1,"a":2}`), colour(3), &byPointer{4},
		map[colour]int{1: 1},
	}).Draw(t, "any")
	if rapid.Bool().Draw(t, "pointer") {
		e.Pointer, e.Missing, e.Colours = &pair{"a", ""}, &pair{}, []colour{1, 2}
	}
	if depth > 0 {
		inner := drawEverything(t, depth-1)
		e.Self = &inner
	}
	return e
}

// Property: the direct way gives the bytes that JSON gives, of values and of what is behind pointers.
func TestMarshalIsWhatJSONSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEverything(t, rapid.IntRange(0, 2).Draw(t, "depth"))
		for _, v := range []any{e, &e, []everything{e}, map[string]any{"e": e}} {
			want, err := byJSON(v, false)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Marshal(v); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v\n%q\n%q", err, got, want)
			}
		}
	})
}

func TestMarshalRefusesWhatJSONWould(t *testing.T) {
	type deep []any
	nested := func(n int) any {
		v := any(deep{})
		for range n {
			v = deep{v}
		}
		return v
	}
	for name, c := range map[string]struct {
		v    any
		want error
	}{
		"text":              {"a\xff", ErrText},
		"key":               {map[string]int{"a\xff": 1}, ErrText},
		"member":            {pair{Left: "\xff"}, ErrText},
		"listed":            {[]pair{{Left: "\xff"}}, ErrText},
		"in what JSON does": {map[int]string{1: "\xff"}, ErrText},
		"raw twice":         {json.RawMessage(`{"a":1,"a":2}`), ErrRepeated},
		"raw rest":          {json.RawMessage(`1`), nil},
		"raw text":          {json.RawMessage("\"\xff\""), ErrText},
		"no number":         {json.Number("true"), ErrNumber},
		"half a number":     {json.Number("1."), ErrNumber},
		"too far":           {json.Number("1e1000"), ErrRange},
		"deepest":           {nested(MaxDepth), nil},
		"too deep":          {nested(MaxDepth + 1), ErrDepth},
		"raw too deep":      {[]any{json.RawMessage(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1))}, ErrDepth},
	} {
		got, err := Marshal(c.v)
		if _, jsons := byJSON(c.v, false); (jsons == nil) != (err == nil) {
			t.Errorf("%s: %v, by JSON %v", name, err, jsons)
		}
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %q %v, want %v", name, got, err, c.want)
		}
	}
	for _, v := range []any{make(chan int), func() {}, map[bool]int{true: 1}, struct{ F func() }{}} {
		if got, err := Marshal(v); err == nil {
			t.Errorf("%T: %q", v, got)
		}
	}
}

// Property: what is not text is written as the JSON package writes it, and keys that become the same are refused.
func TestMarshalMended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bad := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "bytes")) })
		v := map[string]any{bad.Draw(t, "key"): bad.Draw(t, "text"), bad.Draw(t, "key"): []pair{{Left: bad.Draw(t, "left")}}}
		want, wanted := byJSON(v, true)
		got, err := MarshalMended(v)
		if (err == nil) != (wanted == nil) || !bytes.Equal(got, want) {
			t.Fatalf("%q %v\n%q %v", got, err, want, wanted)
		}
	})
}

// A type that contains itself, used first by many at once.
func TestMarshalAtOnce(t *testing.T) {
	type chain struct {
		Next *chain `json:"next,omitempty"`
	}
	done := make(chan string)
	for range 16 {
		go func() {
			b, err := Marshal(&chain{Next: &chain{}})
			done <- fmt.Sprint(string(b), err)
		}()
	}
	for range 16 {
		if got := <-done; got != "m1:s4:nextm0:<nil>" {
			t.Error(got)
		}
	}
}
