package sigv4

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// validAction is what services call their actions: DynamoDB_20120810.GetItem.
var validAction = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

// action is what a request says that it does, for people: in a header, its query or a form. Services that go by method
// and path, such as s3, have none.
func (s *Signed) action(r *http.Request) string {
	for _, a := range []string{r.Header.Get("X-Amz-Target"), one(r.URL.RawQuery), s.form} {
		if validAction.MatchString(a) {
			return " (" + a + ")"
		}
	}
	return ""
}

// formAction is the action of a form.
func formAction(r *http.Request, body []byte) string {
	if !strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/x-www-form-urlencoded") {
		return ""
	}
	return one(string(body))
}

// one is the Action of a query, where it has one and no other.
func one(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil || len(values["Action"]) != 1 {
		return ""
	}
	return values["Action"][0]
}
