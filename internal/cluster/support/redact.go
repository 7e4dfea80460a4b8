// Package support packs what explains a fault of a cluster, without secrets: no keys, values, private keys and tokens.
package support

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// removed stands for what was removed.
const removed = "[removed]"

// secret are names of attributes in logs whose values are removed. Errors are kept without what they quote.
var secret = []string{"key", "keys", "prefix", "value", "values", "token", "password", "user", "advice", "note"}

// reason are names of attributes whose values are errors, which may name keys.
var reason = []string{"error", "err", "reason", "because", "cause"}

var (
	// pem is a block of PEM, whole or cut off.
	pem = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\z)`)
	// attribute is a name and its value in a line of log/slog's text format.
	attribute = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_.-]*|"(?:[^"\\]|\\.)*")=("(?:[^"\\]|\\.)*"|[^\s"]*)`)
	// quoted is what an error quotes.
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"` + "|`[^`]*`|'[^']*'")
	// operation is what an error of the client begins with: the operation and its key.
	operation = regexp.MustCompile(`(?i)\b(get|put|delete|cas|add) \S+`)
	// header names a secret of HTTP, whose scheme may stand before it, or of a command line.
	header = regexp.MustCompile(`(?i)\b(authorization|bearer|token|password|secret|passwd)(["']?\s*[:= ]\s*["']?)` +
		`(?:(?:basic|bearer|digest|token)\s+)?[^\s"',;]+(\s+[A-Za-z0-9._~+/=-]{16,})?`)
	// account is a user with a password: in a URL, or for etcdctl.
	account = regexp.MustCompile(`(?i)(://)[^\s/@"']+(@)|(--user[= ])\S+`)
	// long is a text that looks like an encoded secret: of base64 or hexadecimal digits.
	long = regexp.MustCompile(`[A-Za-z0-9+/=_-]{40,}`)
)

// Redact returns a log without secrets. It knows the text and JSON formats of the product's logs; of other lines it removes PEM
// blocks, what stands behind words such as token, and long codes. It may remove too much.
func Redact(log []byte) []byte {
	log = pem.ReplaceAll(log, []byte(removed))
	var out bytes.Buffer
	for line := range bytes.Lines(log) {
		text, end := bytes.TrimRight(line, "\r\n"), ""
		if len(text) < len(line) {
			end = "\n"
		}
		out.WriteString(redactLine(string(text)) + end)
	}
	return out.Bytes()
}

func redactLine(line string) string {
	// A line of JSON may stand behind the journal's time. An attribute of a text line may end like one.
	if start := strings.IndexByte(line, '{'); start >= 0 && !strings.Contains(line[:start], "=") {
		decoder := json.NewDecoder(strings.NewReader(line[start:]))
		decoder.UseNumber()
		var object any
		if err := decoder.Decode(&object); err == nil && !decoder.More() {
			if text, err := json.Marshal(redactObject("", object)); err == nil {
				return redactText(line[:start] + string(text))
			}
		}
	}
	line = attribute.ReplaceAllStringFunc(line, func(text string) string {
		parts := attribute.FindStringSubmatch(text)
		switch name := strings.Trim(parts[1], `"`); {
		case named(secret, name):
			return parts[1] + "=" + removed
		case named(reason, name):
			value, err := strconv.Unquote(parts[2])
			if err != nil {
				value = parts[2]
			}
			return parts[1] + "=" + strconv.Quote(redactReason(value))
		}
		return text
	})
	return redactText(line)
}

// named reports whether an attribute has one of the names, in any group.
func named(names []string, name string) bool {
	return slices.Contains(names, strings.ToLower(name[strings.LastIndexByte(name, '.')+1:]))
}

func redactReason(text string) string {
	return operation.ReplaceAllString(quoted.ReplaceAllString(text, removed), "$1 "+removed)
}

// redactObject returns the value of an attribute in JSON without secrets.
func redactObject(name string, value any) any {
	if named(secret, name) {
		return removed
	}
	switch value := value.(type) {
	case map[string]any:
		for inner := range value {
			value[inner] = redactObject(inner, value[inner])
		}
	case []any:
		for i := range value {
			value[i] = redactObject(name, value[i])
		}
	case string:
		if named(reason, name) {
			return redactReason(value)
		}
	}
	return value
}

func redactText(text string) string {
	text = account.ReplaceAllString(text, "${1}${3}"+removed+"${2}")
	return long.ReplaceAllString(header.ReplaceAllString(text, "${1}${2}"+removed), removed)
}
