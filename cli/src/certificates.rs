//! The certificates for `rediss://` servers, from their files.

use redlatch::Builder;

use crate::arguments::TlsFiles;
use crate::failure::Failure;

impl TlsFiles {
    /// These, and what they leave open from others. A certificate and its key are one thing.
    pub(crate) fn or(&self, others: &Self) -> Self {
        let own = self.tls_cert.is_some() || self.tls_key.is_some();
        let identity = if own { self } else { others };
        Self {
            tls_ca: self.tls_ca.clone().or_else(|| others.tls_ca.clone()),
            tls_cert: identity.tls_cert.clone(),
            tls_key: identity.tls_key.clone(),
            tls_name: self.tls_name.clone().or_else(|| others.tls_name.clone()),
        }
    }
}

/// Gives the certificates to the builder, which checks them.
#[cfg(feature = "tls-rustls")]
pub(crate) fn with_tls(builder: Builder, files: &TlsFiles) -> Result<Builder, Failure> {
    use std::fs;
    use std::path::Path;

    use redlatch::Tls;

    use crate::secret::warn_of_others;

    let read = |file: &Path, what: &str| {
        fs::read(file).map_err(|error| {
            let file = file.display();
            Failure::usage(format!(
                "{file}: the {what} can't be read: {error}; look at its path and rights"
            ))
        })
    };
    let mut tls = Tls::default();
    if let Some(file) = &files.tls_ca {
        tls = tls.root_certificates(read(file, "certificates of the servers")?);
    }
    match (&files.tls_cert, &files.tls_key) {
        (Some(chain), Some(key)) => {
            warn_of_others(key, "the private key");
            let (chain, key) = (read(chain, "certificate")?, read(key, "private key")?);
            tls = tls.client_certificate(chain, key);
        }
        (Some(_), None) | (None, Some(_)) => {
            return Err(Failure::usage(
                "a certificate and its private key belong together; give both --tls-cert and --tls-key",
            ));
        }
        (None, None) => {}
    }
    if let Some(name) = &files.tls_name {
        tls = tls.server_name(name);
    }
    Ok(if *files == TlsFiles::default() {
        builder
    } else {
        builder.tls(tls)
    })
}

/// Refuses what this build can't use.
#[cfg(not(feature = "tls-rustls"))]
pub(crate) fn with_tls(builder: Builder, files: &TlsFiles) -> Result<Builder, Failure> {
    if *files == TlsFiles::default() {
        return Ok(builder);
    }
    Err(Failure::usage(
        "certificates can't be used: this redlatch was built without TLS; build it with the cargo feature tls-rustls",
    ))
}
