package ui

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// JSON writes v as one line.
func (o *Out) JSON(v any) error {
	b, err := Marshal(v)
	if err != nil {
		return err
	}
	_, err = o.Writer().Write(b)
	return err
}

// Marshal is v as one line of JSON. '<', '>' and '&' stay as they are.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Text is s for a JSON string, and its base64 if s is not UTF-8 and the string therefore is not all of it.
func Text(s string) (text, b64 string) {
	if utf8.ValidString(s) {
		return s, ""
	}
	return strings.ToValidUTF8(s, "\uFFFD"), base64.StdEncoding.EncodeToString([]byte(s))
}

// Args is a NUL-joined command line as a JSON list. Bytes that are not UTF-8 are replaced.
func Args(argv string) []string {
	if argv == "" {
		return nil
	}
	return strings.Split(strings.ToValidUTF8(strings.TrimSuffix(argv, "\x00"), "\uFFFD"), "\x00")
}

// Stamp is a time in nanoseconds since the epoch as JSON output shows it: RFC 3339 in UTC, "" for 0.
func Stamp(ns int64) string {
	if ns == 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
}
