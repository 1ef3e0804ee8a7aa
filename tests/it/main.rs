//! The integration tests: everything that users see, over fake nodes and over real `redis-server` processes.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

#[cfg(test)]
mod alone;
#[cfg(test)]
mod cancelled;
#[cfg(test)]
#[cfg(feature = "tls-rustls")]
mod certificates;
#[cfg(test)]
mod config;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod credentials;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod dependencies;
#[cfg(test)]
mod extend;
#[cfg(test)]
mod fakes;
#[cfg(test)]
mod fanout;
#[cfg(test)]
mod fanout_faults;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod fenced;
#[cfg(test)]
mod fenced_faults;
#[cfg(test)]
mod fenced_input;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod forks;
#[cfg(test)]
mod full;
#[cfg(test)]
mod guard;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod handover;
#[cfg(test)]
mod hazards;
#[cfg(test)]
mod health;
#[cfg(test)]
mod health_hostile;
#[cfg(test)]
mod health_servers;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod introduced;
#[cfg(test)]
mod keep_alive;
#[cfg(test)]
mod kept_on_servers;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod lock;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod loss;
#[cfg(test)]
mod operations;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod own_threads;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod paused;
#[cfg(test)]
mod proxied;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod queue;
#[cfg(test)]
mod rebirth;
#[cfg(test)]
mod reserved;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod rooms;
#[cfg(test)]
mod rounds;
#[cfg(test)]
mod secrets;
#[cfg(feature = "tracing")]
#[cfg(test)]
mod spans;
#[cfg(test)]
mod stats;
#[cfg(test)]
mod status;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod tidy;
#[cfg(feature = "tls-rustls")]
#[cfg(test)]
mod tls;
#[cfg(feature = "tls-rustls")]
#[cfg(test)]
mod tls_hostile;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod waiting_fairness;
#[cfg(test)]
mod waiting_trouble;
