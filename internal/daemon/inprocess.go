package daemon

import (
	"io"
	"net/http"
	"sync"
)

// inProcess is an http.RoundTripper that calls a handler in this process. The body streams.
type inProcess struct{ h http.Handler }

// RoundTrip implements http.RoundTripper.
func (t *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	pr, pw := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: pw, started: make(chan struct{})}
	go func() {
		defer pw.Close()
		t.h.ServeHTTP(w, req)
		w.WriteHeader(http.StatusOK)
	}()
	<-w.started
	return &http.Response{
		StatusCode: w.code, Status: http.StatusText(w.code), Header: w.header, Body: pr, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
	}, nil
}

type pipeWriter struct {
	header  http.Header
	body    *io.PipeWriter
	once    sync.Once
	code    int
	started chan struct{}
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(code int) {
	w.once.Do(func() {
		w.code = code
		close(w.started)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush implements http.Flusher: a pipe holds nothing back.
func (w *pipeWriter) Flush() {}
