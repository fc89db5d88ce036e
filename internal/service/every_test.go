package service_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEvery(t *testing.T) {
	t.Parallel()
	t.Run("runs at once and again, and stops after the run that runs", func(t *testing.T) {
		t.Parallel()
		var runs atomic.Int64
		s := service.Every(time.Millisecond, func(context.Context) { runs.Add(1) })
		require.NoError(t, s.Start(t.Context()))
		require.Eventually(t, func() bool { return runs.Load() > 3 }, 10*time.Second, time.Millisecond)
		require.NoError(t, s.Stop(t.Context()))
		after := runs.Load()
		require.Never(t, func() bool { return runs.Load() > after }, 20*time.Millisecond, time.Millisecond)
	})
	t.Run("a run hears that it should end, and Stop is bounded", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		s := service.Every(time.Hour, func(ctx context.Context) {
			<-ctx.Done()
			<-release
		})
		require.NoError(t, s.Start(t.Context()))
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.Stop(short), context.DeadlineExceeded)
		close(release)
		require.NoError(t, s.Stop(t.Context()))
	})
	t.Run("one that never started stops", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, service.Every(time.Hour, func(context.Context) {}).Stop(t.Context()))
	})
}
