//! Listings that are none are noticed.
//!
//! The library reads any XML, and a page of a proxy, as a listing without files. A lake would look empty. So the answer to a listing must begin one.

use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

const ELEMENT: &[u8] = b"<ListBucketResult";
/// A page has a thousand keys of at most a kilobyte.
const LARGEST_PAGE: usize = 16 << 20;

/// Makes clients that check listings.
#[derive(Debug)]
pub struct CheckingConnector;

impl HttpConnector for CheckingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(CheckingClient { client: ReqwestConnector::default().connect(options)? }))
    }
}

#[derive(Debug)]
struct CheckingClient {
    client: HttpClient,
}

/// The answer is no listing.
#[derive(Debug)]
pub struct NotAListing;

impl std::fmt::Display for NotAListing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server does not answer as an object store does: its listing is none")
    }
}

impl std::error::Error for NotAListing {}

impl HttpService for CheckingClient {
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> BoxFuture<'async_trait, Result<HttpResponse, HttpError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let is_listing = request.uri().query().is_some_and(|query| query.contains("list-type=2"));
            let answer = self.client.execute(request).await?;
            if !is_listing || !answer.status().is_success() {
                return Ok(answer);
            }
            let (parts, body) = answer.into_parts();
            let mut page = Vec::new();
            let mut chunks = body.bytes_stream();
            while let Some(chunk) = chunks.try_next().await? {
                page.extend_from_slice(&chunk);
                if page.len() > LARGEST_PAGE {
                    return Err(HttpError::new(HttpErrorKind::Decode, NotAListing));
                }
            }
            if page.windows(ELEMENT.len()).any(|bytes| bytes == ELEMENT) {
                Ok(HttpResponse::from_parts(parts, page.into()))
            } else {
                Err(HttpError::new(HttpErrorKind::Decode, NotAListing))
            }
        })
    }
}
