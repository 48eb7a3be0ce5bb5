package dotenv

import (
	"bytes"
	"strings"
	"testing"
)

var masker = Masker{Key: []byte("a key of tests, 32 bytes long ..."), Workspace: "/w"}

// hidden is text whose placeholders are all alike.
func hidden(text string) string { return placeholder.ReplaceAllString(text, "MASKED") }

func TestMask(t *testing.T) {
	const s = "sk-live-0123456789" // a secret
	for in, want := range map[string]string{
		"":                                     "",
		"PORT=3000\n":                          "PORT=3000\n",
		"PORT=3000":                            "PORT=3000",
		"KEY=" + s:                             "KEY=MASKED",
		"KEY=" + s + "\n":                      "KEY=MASKED\n",
		"KEY=" + s + "\r\nPORT=1\r\n":          "KEY=MASKED\r\nPORT=1\r\n",
		"\ufeffKEY=" + s + "\n":                "\ufeffKEY=MASKED\n",
		"export KEY=" + s + "\n":               "export KEY=MASKED\n",
		"  export\tKEY = " + s + "  \nA=b\n":   "  export\tKEY = MASKED  \nA=b\n",
		"KEY: " + s + "\n":                     "KEY: MASKED\n",
		"KEY='" + s + "'\n":                    "KEY='MASKED'\n",
		`KEY="` + s + `" # why` + "\n":         `KEY="MASKED" # why` + "\n",
		"KEY=`" + s + "`\n":                    "KEY=`MASKED`\n",
		`KEY="a\"` + s + `"` + "\nA=b\n":       `KEY="MASKED"` + "\nA=b\n",
		"KEY=\"one\ntwo\nthree\nfour\"\nA=b":   "KEY=\"MASKED\"\nA=b",
		"KEY=" + s + " # the key\nA=b # c\n":   "KEY=MASKED # the key\nA=b # c\n",
		"KEY=" + s + "#more\n":                 "KEY=MASKED\n",
		`KEY="a"` + s + "\nA=b\n":              "KEY=MASKED\nA=b\n",
		"KEY=abc\xff\xfe" + s + "\nA=b\n":      "KEY=MASKED\nA=b\n",
		"# a comment about things\n\n \t\n":    "# a comment about things\n\n \t\n",
		"#KEY=" + s + "\n# KEY='" + s + "'\n":  "#KEY=MASKED\n# KEY='MASKED'\n",
		"# old: " + s + "\n":                   "# old: MASKED\n",
		"# https://example.com/docs/v2/a\n":    "# https://example.com/docs/v2/a\n",
		"# ftp://me:secret9@example.com/a\n":   "# MASKED\n",
		"URL=postgres://u:p@localhost/db\n":    "URL=MASKED\n",
		"N=1700000000000\nF=-12.5e10\n":        "N=1700000000000\nF=-12.5e10\n",
		"N=123456789012345678901\n":            "N=MASKED\n",
		"B=true\nC=false\nENV=development\n":   "B=true\nC=false\nENV=development\n",
		"EMPTY=\nQ=\"\"\nX=''\nexport FOO\nA":  "EMPTY=\nQ=\"\"\nX=''\nexport FOO\nA",
		"A=b\nKEY=" + s + "\n# not " + s + "x": "A=b\nKEY=MASKED\n# not MASKED",
		"A=1\nwhat is this\nPORT=1\n":          "A=1\n" + unreadable,
		"A=1\nKEY=\"never closed\nPORT=1\n":    "A=1\nKEY=\n" + unreadable,
		"A=1\nMIIEvQIBADANBgkqhkiG9w\nB=2\n":   "A=1\n" + unreadable,
		"A=1\n# x\rKEY=" + s + "\n":            "A=1\n" + unreadable,
		"A=1\n# x\u2028KEY=" + s + "\n":        "A=1\n" + unreadable,
		"\xff\xfeK\x00E\x00Y\x00":              unreadable,
		"K=don't look at me\nB=it's\n":         "K=MASKED\nB=it's\n",
		"K= #" + s + "\n":                      "K= #MASKED\n",
		"A.b-c=" + s:                           "A.b-c=MASKED",
	} {
		if got := hidden(string(masker.Mask([]byte(in)))); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

// A placeholder is the same for the same value of the same variable in the same workspace with the same key, and for
// nothing else.
func TestPlaceholder(t *testing.T) {
	mask := func(m Masker, text string) string { return string(m.Mask([]byte(text))) }
	one := mask(masker, "KEY=secretsecret1\n")
	if again := mask(masker, "A=1\nKEY='secretsecret1'\n"); !strings.Contains(again, strings.TrimSpace(one[4:])) {
		t.Errorf("%q and %q", one, again)
	}
	if !Carries([]byte(one)) || Carries([]byte("KEY=palyra-masked-")) || len(one) != len("KEY=\n")+len(Prefix)+letters {
		t.Errorf("%q", one)
	}
	other, key := masker, masker
	other.Workspace, key.Key = "/x", []byte("another")
	seen := map[string]bool{one[4:]: true}
	for _, text := range []string{
		mask(masker, "KEY=secretsecret2\n")[4:], mask(masker, "KEX=secretsecret1\n")[4:], mask(other, "KEY=secretsecret1\n")[4:],
		mask(key, "KEY=secretsecret1\n")[4:],
	} {
		if seen[text] {
			t.Errorf("%q stands for two", text)
		}
		seen[text] = true
	}
}

func TestKnown(t *testing.T) {
	m := masker
	m.Known = func(name string, value []byte) (string, bool) {
		if name == "PIN" && string(value) == "1234" || string(value) == "vault:pin" {
			return "vault:pin", true
		}
		return "", false
	}
	if got := hidden(string(m.Mask([]byte("PIN=1234\nPORT=1234\nK=secretsecret12\n")))); got != "PIN=vault:pin\nPORT=1234\nK=MASKED\n" {
		t.Errorf("%q", got)
	}
}

func TestTooLarge(t *testing.T) {
	big := bytes.Repeat([]byte("PORT=3000\n"), MaxFile/10+1)
	if got := string(masker.Mask(big)); got != tooLarge || string(masker.Mask([]byte(got))) != got {
		t.Errorf("%.100q", got)
	}
	if got := masker.Mask(big[:MaxFile]); len(got) != MaxFile {
		t.Errorf("%d bytes", len(got))
	}
}

func TestNames(t *testing.T) {
	n, err := NewNames([]string{"*.secrets", "Config.INI"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(".env .ENV .env.local .env.production prod.env .env.example.local .env-dev .env_dev " +
		"x.secrets config.ini a\xffb.env .env.") {
		if !n.Count(name) {
			t.Errorf("%q does not count", name)
		}
	}
	for _, name := range strings.Fields("env .envrc .env.example .env.sample .env.template prod.env.example environment .environment " +
		"a.envx secrets") {
		if n.Count(name) {
			t.Errorf("%q counts", name)
		}
	}
	for _, bad := range []string{"", "*", "a/b", "[", "..", strings.Repeat("x", 256)} {
		if _, err := NewNames([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := NewNames(make([]string, maxMore+1)); err == nil {
		t.Error("too many are taken")
	}
}

// Whatever a file is: masking ends, the copy of a copy is the copy, and no masked value is left in it.
func TestSecrets(t *testing.T) {
	var got []string
	for _, v := range Secrets([]byte("A=a long enough value\nexport B='another long value'\nPORT=123456789012\nS=short\n" +
		"A=the last value of A\nM=" + Prefix + "abcdefghijklmnopqrst\n")) {
		got = append(got, v.Name+"="+string(v.Value))
	}
	if want := "A=the last value of A|B=another long value"; strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
}

func FuzzMask(f *testing.F) {
	for _, s := range []string{
		"KEY=secretsecret12\n# secretsecret12\nX=\"multi\nline value\"\r\n", "A==palyra-mask\n", "export K='a'\"b\"\n",
		"\ufeffA: b\n#A=bbbbbbbbbbbbbbbbb",
		"K=\"x\ny=secretsecret\"\nx\ny=secretsecret\n", "K=`a", "palyra-masked-aaaaaaaaaaaaaaaaaaaa\n", "K=palyra-masked-aaaaaaaaaaaaaaaaaaaab",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out := masker.Mask(text)
		if again := masker.Mask(out); !bytes.Equal(again, out) && len(out) <= MaxFile {
			t.Errorf("%q becomes %q becomes %q", text, out, again)
		}
		left := placeholder.ReplaceAll(out, []byte{0})
		values, cut := read(text)
		for _, s := range values {
			v := text[s.from:s.to]
			if s.to <= cut && !plain(string(v)) && bytes.Contains(left, v) && !bytes.Contains([]byte(unreadable), v) {
				t.Errorf("%q is left in %q of %q", v, out, text)
			}
		}
	})
}
