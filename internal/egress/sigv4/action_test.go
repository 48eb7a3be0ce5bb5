package sigv4

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// What a request does is told where it says so, once, in plain letters.
func TestAction(t *testing.T) {
	for _, c := range []struct{ target, query, form, want string }{
		{target: "DynamoDB_20120810.GetItem", want: " (DynamoDB_20120810.GetItem)"},
		{query: "Action=ListUsers&Version=1", want: " (ListUsers)"},
		{form: "Action=DeleteUser&UserName=x", want: " (DeleteUser)"},
		{form: "Action=ListUsers&Action=DeleteUser"},
		{query: "Action=%0aGET+/"},
		{target: strings.Repeat("x", 200)},
		{},
	} {
		r := httptest.NewRequest("POST", "https://iam.example/?"+c.query, nil)
		r.Header.Set("X-Amz-Target", c.target)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		s := &Signed{form: formAction(r, []byte(c.form))}
		if got := s.action(r); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
