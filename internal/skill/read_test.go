package skill

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

const good = `format = "palyra-manifest/1"
id = "weather"
version = "1.2.3"
publisher = "acme"
description = "Says what the weather is."
license = "MIT"

[[tools]]
name = "now"
description = "The weather now."
module = "weather.wasm"
input_schema = '{"type":"object","properties":{"city":{"type":"string"}}}'

[folder]
scripts = ["scripts/run.py"]

[capabilities]
hosts = ["api.example.com:443", "api.example.com:443"]
secrets = ["weather-key"]
storage = ["cache/"]
tools = ["palyra.fs.read"]
programs = ["python3"]
read = ["."]
write = ["out"]

[limits]
fuel = 1000
memory_mib = 16
timeout_ms = 5000
`

func TestParse(t *testing.T) {
	m, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != "weather" || len(m.Tools) != 1 || len(m.Capabilities.Hosts) != 1 ||
		m.Limits.TimeoutMS != 5000 || m.Folder.Scripts[0] != "scripts/run.py" {
		t.Errorf("%+v", m)
	}
	text, err := Write(m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text)
	if diff := cmp.Diff(m, again); err != nil || diff != "" {
		t.Errorf("%v\n%s\n%s", err, diff, text)
	}
}

// Each is refused, with what is wrong.
func TestParseRefuses(t *testing.T) {
	with := func(old, by string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %s", old)
		}
		return strings.Replace(good, old, by, 1)
	}
	for _, c := range []struct{ text, want string }{
		{"", "format is"},
		{"format = [", "cannot be read"},
		{good + "\x00", "UTF-8"},
		{"\ufeff" + good, "byte order mark"},
		{good + "\xff", "UTF-8"},
		{good + strings.Repeat("#", MaxManifest), "bytes"},
		{"x = " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "nested"},
		{with(`license = "MIT"`, `licence = "MIT"`), `no member "licence"`},
		{with(`hosts = [`, `Hosts = [`), `another case`},
		{with(`[capabilities]`, "[Capabilities]\nhosts = []\n[capabilities]"), "another case"},
		{with(`id = "weather"`, "id = \"weather\"\nid = \"other\""), "cannot be read"},
		{with("palyra-manifest/1", "palyra-manifest/2"), "format is"},
		{with(`id = "weather"`, `id = "Weather"`), "id:"},
		{with(`id = "weather"`, `id = "palyra-x"`), "id:"},
		{with(`id = "weather"`, `id = "../x"`), "id:"},
		{with("1.2.3", "1.2"), "version:"},
		{with(`publisher = "acme"`, `publisher = ""`), "publisher:"},
		{with(`"Says what the weather is."`, `" "`), "description is missing"},
		{with(`"Says what the weather is."`, `"\u001b[2J"`), "do not show"},
		{with(`"Says what the weather is."`, `"Says \u202e is."`), "do not show"},
		{with(`"Says what the weather is."`, `"Says \U000E0041\U000E0100 is."`), "do not show"},
		{with(`{"type":"object"`, `{"description":"\u200b","type":"object"`), "do not show"},
		{with(`license = "MIT"`, `license = "a\nb"`), "license:"},
		{with(`name = "now"`, `name = "No"`), "tools: a name"},
		{with(`name = "now"`, `name = "run"`), "tool of the folder"},
		{with("weather.wasm", "../weather.wasm"), "module is"},
		{with("weather.wasm", "weather.so"), "module is"},
		{with(`{"type":"object"`, `{"type":"string"`), "JSON Schema"},
		{with(`{"type":"object"`, `{"type":"object","type":"object"`), "JSON Schema"},
		{with("api.example.com:443", "api.example.com"), "capabilities.hosts"},
		{with("api.example.com:443", "https://api.example.com:443"), "capabilities.hosts"},
		{with("api.example.com:443", "api.example.com:0443"), "capabilities.hosts"},
		{with("api.example.com:443", "api.example.com:99999"), "capabilities.hosts"},
		{with(`"cache/"`, `"cache"`), "capabilities.storage"},
		{with(`"cache/"`, `"../cache/"`), "capabilities.storage"},
		{with(`read = ["."]`, `read = ["/etc"]`), "capabilities.read"},
		{with(`write = ["out"]`, `write = ["a/../../b"]`), "capabilities.write"},
		{with(`programs = ["python3"]`, `programs = ["/usr/bin/python3"]`), "capabilities.programs"},
		{with(`programs = [`, "channels = [\"team\"]\nprograms = ["), "no channels"},
		{with(`programs = [`, "reveal = [\"weather-key\"]\nprograms = ["), "no skill is shown the value of a secret"},
		{with(`license = "MIT"`, `abi = "wasi"`), "abi:"},
		{with(`module = "weather.wasm"`, "module = \"weather.wasm\"\nexport = \"_start\""), "export is"},
		{with(`module = "weather.wasm"`, "module = \"weather.wasm\"\nexport = \"palyra_alloc\""), "export is"},
		{with(`module = "weather.wasm"`, "module = \"weather.wasm\"\nexport = \"a b\""), "export is"},
		{with(`scripts/run.py`, `../run.py`), "folder: scripts"},
		{with("[folder]\nscripts = [\"scripts/run.py\"]", ""), "there is none"},
		{with("fuel = 1000", "fuel = -1"), "limits.fuel"},
		{with("fuel = 1000", "fuel = 99999999999999"), "limits.fuel"},
		{with("memory_mib = 16", "memory_mib = 99999"), "limits.memory_mib"},
		{with("timeout_ms = 5000", "timeout_ms = 5"), "limits.timeout_ms"},
		{strings.Split(good, "[[tools]]")[0], "neither tools nor a folder"},
		{with("[folder]", strings.Repeat("[[tools]]\nname = \"x\"\n", 40)+"[folder]"), "tools"},
		{with("[folder]", "[[tools]]\nname = \"now\"\ndescription=\"x\"\nmodule=\"weather.wasm\"\n"+
			"input_schema='{\"type\":\"object\"}'\n[folder]"), "two tools"},
	} {
		m, err := Parse([]byte(c.text))
		e := palyra.AsError(err)
		if err == nil || e.Reason != ReasonManifest || !strings.Contains(e.Text, c.want) || e.Remedy == "" {
			t.Errorf("%.60q… want %q: %v %+v", c.text, c.want, err, m.ID)
		}
	}
}

func TestValidPath(t *testing.T) {
	for p, want := range map[string]bool{
		"a": true, "a/b.py": true, "A b/c_d-e.txt": true, "_x": true,
		"": false, ".": false, "..": false, "/a": false, "a/": false, "a//b": false, "a/../b": false, "a/./b": false, ".git/x": false,
		"a\\b": false, "c:x": false, "a\x00b": false, "a\nb": false, "ä": false, "nul": false, "COM1.txt": false, "a.": false, "a ": false,
		"-rf": false, strings.Repeat("a", 300): false, "a/\u202eb": false,
	} {
		if ValidPath(p) != want {
			t.Errorf("%q: %v", p, !want)
		}
	}
}

// FuzzParse: what is accepted is in its one form, and its writing reads back as the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(strings.Replace(good, "[folder]", "[Folder]", 1)))
	f.Add([]byte("format = \"palyra-manifest/1\"\nid = \"\\u0061\"\n[[tools]]\n[[tools]]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Parse(raw)
		if err != nil {
			if e := palyra.AsError(err); e.Reason != ReasonManifest || e.Remedy == "" {
				t.Fatalf("no named error: %v", err)
			}
			return
		}
		if !ValidID(m.ID) || !ValidID(m.Publisher) || !ValidVersion(m.Version) {
			t.Fatalf("accepted %+v", m)
		}
		text, err := Write(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if diff := cmp.Diff(m, again); err != nil || diff != "" {
			t.Fatalf("%v\n%s\n%s", err, diff, text)
		}
	})
}
