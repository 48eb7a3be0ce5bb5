package hostport

import "testing"

func TestParse(t *testing.T) {
	for s, want := range map[string]string{"8080": "8080:8080", "8080:3000": "8080:3000", "65535:1": "65535:1"} {
		if p, err := Parse(s); err != nil || p.String() != want {
			t.Errorf("%s: %s, %v", s, p, err)
		}
	}
	bad := []string{"", ":", "0", "65536", "080", "+80", "80:", ":80", "80:81:82", "8 0", "0x50", "localhost:80", "-1", "8080:0"}
	for _, s := range bad {
		if p, err := Parse(s); err == nil {
			t.Errorf("%q: %s", s, p)
		}
		if all, no := ParseAll([]string{"80", s}); no != s || all != nil {
			t.Errorf("%q: %v, %q", s, all, no)
		}
	}
	if all, no := ParseAll([]string{"80", "81:82"}); len(all) != 2 || no != "" {
		t.Errorf("%v, %q", all, no)
	}
}
