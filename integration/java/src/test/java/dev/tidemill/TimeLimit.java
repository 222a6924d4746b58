package dev.tidemill;

import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.junit.runner.Description;
import org.junit.runner.notification.RunListener;

/**
 * Interrupts a test that takes longer than the system property {@code testSecondsMax} says, so that a
 * job that never ends costs one test and not the suite. The client that waits for the job throws then.
 */
public class TimeLimit extends RunListener {
  private static final long SECONDS_MAX = Long.getLong("testSecondsMax", 60);

  private final ScheduledExecutorService clock =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "time-limit");
            thread.setDaemon(true);
            return thread;
          });
  private ScheduledFuture<?> alarm;

  @Override
  public synchronized void testStarted(Description test) {
    Thread runner = Thread.currentThread();
    alarm =
        clock.scheduleAtFixedRate(
            () -> {
              System.err.println(test.getDisplayName() + " took more than " + SECONDS_MAX + " s");
              runner.interrupt();
            },
            SECONDS_MAX,
            SECONDS_MAX,
            TimeUnit.SECONDS);
  }

  @Override
  public synchronized void testFinished(Description test) {
    if (alarm != null) {
      alarm.cancel(false);
    }
    // An interrupt that came as the test ended is not for the next one.
    Thread.interrupted();
  }
}
